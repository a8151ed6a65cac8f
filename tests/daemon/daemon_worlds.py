"""Small worlds for the daemon's tests: reports, views and patience."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast, no_forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.plan import Placing, Plan
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import View
from slurmsched.cycle import CycleReport
from slurmsched.daemon.api import query_protocol
from slurmsched.lab import waiting

ask = partial(query_protocol.query, timeout_s=60.0)
"""As people ask, with patience for a machine that stands still for a while."""


def report(number: int = 1, **known: Any) -> CycleReport:
    defaults: dict[str, Any] = {
        "number": number,
        "now_s": 1000.0,
        "mode": "observe",
        "sentence": "2 pending, nothing to do.",
        "phases_s": {"observe": 0.1, "decide": 0.01},
        "decided_s": {"order": 0.01},
        "waiting": frozenset(),
        "pending": 2,
        "running": 1,
        "ranked": 2,
        "actions": {},
        "refused": 0,
        "deferred": 0,
        "order_lag_s": 0.0,
        "window": 500,
        "starving": 0,
        "fallbacks": (),
        "plugin_trouble": "",
        "shadow_trouble": "",
        "view": view(),
        "plan": plan(2),
        "ended": ended(),
    }
    return CycleReport(**defaults | known)


def forecast(*runtimes_s: float) -> Forecast:
    """Each with an interval from half to double, and a source that names a user."""
    runtime_s = np.array(runtimes_s, dtype=np.float64)
    sources = [f"median of 7 runs of user{row}/train_#" for row in range(len(runtimes_s))]
    return Forecast(runtime_s, runtime_s / 2, runtime_s * 2, Labels.of(sources))


def view(
    pending: dict[int, str] | None = None, running: dict[int, str] | None = None, runtime_s: float | None = None
) -> View:
    """Jobs by id with their owners; every job is named after its owner."""
    pending = {7: "alice", 8: "bob"} if pending is None else pending
    running = {5: "carol"} if running is None else running

    def jobs(owners: dict[int, str]):
        names = [f"{owner}_secret" for owner in owners.values()]
        return job_table(
            len(owners), job_id=list(owners), user=list(owners.values()), account=names, name=names, comment=names
        )

    def said(owners: dict[int, str]):
        return no_forecast(len(owners)) if runtime_s is None else forecast(*[runtime_s] * len(owners))

    none = Labels.of([])
    ints, floats, bools = np.array([], np.int64), np.array([], np.float64), np.array([], np.bool_)
    return View(
        1000.0,
        jobs(pending),
        jobs(running),
        NodeTable(none, none, none, bools, ints, ints, floats, floats, ints, ints, none, none),
        PartitionTable(none, ints, bools, floats, none),
        QosTable(none, ints),
        said(pending),
        said(running),
    )


def plan(length: int, **known: Any) -> Plan:
    """The first job is ranked first; the last one starves."""
    falses, zeros = np.zeros(length, np.bool_), np.zeros(length, np.int64)
    starving = falses.copy()
    starving[-1:] = True
    return Plan(Placing(zeros, np.arange(length), starving, falses, zeros, falses), **known)


def seen(number: int = 1, **known: Any) -> CycleReport:
    """A report of a cycle that saw two pending jobs of two users and a running one."""
    shown = view(**known)
    return report(number, view=shown, plan=plan(len(shown.pending)))


def ended(**runtimes_s: float) -> OutcomeTable:
    """Runs that ended, ``j5=120.0`` being job 5."""
    length = len(runtimes_s)
    text, zeros, times = Labels.of(["x"] * length), np.zeros(length, np.int64), np.zeros(length)
    ids = np.array([int(name[1:]) for name in runtimes_s], np.int64)
    took = np.array(list(runtimes_s.values()), np.float64)
    columns = (text, text, text, text, text, zeros, zeros, zeros, times, times, times, times, times)
    return OutcomeTable(ids, zeros, *columns, took, zeros)


def wait_until(condition: Callable[[], object], timeout_s: float = 120.0) -> None:
    """Return once *condition* holds; fail where it does not within *timeout_s*."""
    waiting.wait_until(condition, timeout_s, "a condition", every_s=0.005)
