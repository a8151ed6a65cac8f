"""The state of a running daemon, as ``slurmsched status --json`` shows it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ..cycle import CycleReport
from .active_policy import PolicyStatus


class CycleStatus(TypedDict):
    """The last cycle."""

    number: int
    now_s: float
    sentence: str
    pending: int
    running: int
    ranked: int
    starving: int
    refused: int
    deferred: int
    order_lag_s: float
    window: int
    actions: dict[str, int]
    fallbacks: list[str]
    plugin_trouble: str
    phases_s: dict[str, float]
    decided_s: dict[str, float]
    waiting: list[str]
    promises: dict[str, int]


class DaemonStatus(TypedDict):
    """The state of a running daemon."""

    version: str
    pid: int
    mode: str
    configured_mode: str
    why_mode: str
    paused: bool
    leader: bool
    database_available: bool
    database_trouble: str
    every_s: float
    problem: str
    degraded: str
    bug: str
    last_error: str
    last_turn_s: float | None
    model: NotRequired[str]
    policy: NotRequired[PolicyStatus]
    cycle: NotRequired[CycleStatus]


def cycle_status(report: CycleReport) -> CycleStatus:
    """Summarize a cycle."""
    return {
        "number": report.number,
        "now_s": report.now_s,
        "sentence": report.sentence,
        "pending": report.pending,
        "running": report.running,
        "ranked": report.ranked,
        "starving": report.starving,
        "refused": report.refused,
        "deferred": report.deferred,
        "order_lag_s": report.order_lag_s,
        "window": report.window,
        "actions": dict(report.actions),
        "fallbacks": list(report.fallbacks),
        "plugin_trouble": report.plugin_trouble,
        "phases_s": dict(report.phases_s),
        "decided_s": dict(report.decided_s),
        "waiting": sorted(report.waiting),
        "promises": report.plan.promises.counts(),
    }
