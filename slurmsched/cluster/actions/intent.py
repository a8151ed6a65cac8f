"""Intents: actions that were sent, or are about to be, with what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..events import Value


class Intent(NamedTuple):
    """An action in progress: planned when made, then answered or refused, then seen, then closed."""

    job_id: int  #: NO_JOB for a move of nodes
    kind: str  #: the stored spelling of the action's class
    value: Value  #: what the action asked for, as its class stores it
    requested_s: float
    cycle: int = 0
    answered_s: float | None = None
    refused: str | None = None  #: Slurm's own message
    seen_s: float | None = None  #: time of the first observation with the requested state
    closed_s: float | None = None  #: from then on nothing of it is left in Slurm

    @property
    def key(self) -> tuple[int, int, str]:
        """The unique key within a cluster."""
        return self.cycle, self.job_id, self.kind


def by_request(intents: Iterable[Intent]) -> list[Intent]:
    """Return *intents* in the order in which they were made."""
    return sorted(intents, key=lambda intent: intent.requested_s)


def by_job(intents: Iterable[Intent]) -> dict[int, list[Intent]]:
    """Return *intents* by job, in their order."""
    found: dict[int, list[Intent]] = {}
    for intent in intents:
        found.setdefault(intent.job_id, []).append(intent)
    return found
