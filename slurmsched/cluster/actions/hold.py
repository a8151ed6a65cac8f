"""Holds: begin times of pending jobs that end by themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..events import Value
from ..job_tracker import held_rows
from .base import JobAction, OwnIntents
from .intent import Intent
from .observation import Observation
from .stop import AskToStop, Requeue

if TYPE_CHECKING:
    from ..columns import BoolArray
    from ..jobs import JobTable

HOLD_WITHIN_S = 5.0
"""Slurm may round a start time; a hold this close to the requested one is ours."""

REQUEUE_DELAY_S = 600.0
"""The longest delay of a requeued job: until its old credential has expired (cred_expire, 120 s by default)."""


@dataclass(frozen=True)
class Hold(JobAction):
    """Keep a pending job from starting until *until_s*; the hold then ends by itself."""

    until_s: float
    power = "hold"
    stored = "Hold"
    story = (("held", "we delayed it"),)
    renewed = True
    delays_s = 0.0

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"eligible_s": self.until_s}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return which jobs wait for our hold, or for the delay after our requeue."""
        queued_again = [*own.of(Requeue), *own.of(AskToStop)]
        return {"held_by_us": held_by_us(own.of(cls), queued_again, pending, now_s)}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job waits until then."""
        return isinstance(value, int | float) and bool(abs(pending.eligible_s[row] - value) <= HOLD_WITHIN_S)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once its time has come, or the job started."""
        ended = isinstance(intent.value, int | float) and intent.value <= look.now_s
        return look.waiting(intent.job_id) is None or ended


@dataclass(frozen=True)
class Release(JobAction):
    """End a Hold of ours now."""

    power = "hold"
    stored = "Release"
    returned = "held", "holds of {jobs} ended"
    story = (("released", "we ended our delay"),)
    delays_s = 0.0
    undoes = ("Hold",)

    @property
    def gives_back(self) -> bool:
        """True: the job may start when Slurm lets it."""
        return True

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"eligible_s": now_s}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job may start."""
        return may_start(pending, row, now_s)


def may_start(pending: JobTable, row: int, now_s: float) -> bool:
    """Return True if no begin time keeps the job in a row."""
    return not pending.eligible_s[row] > now_s


def held_by_us(
    holds: Collection[Intent], queued_again: Collection[Intent], pending: JobTable, now_s: float
) -> BoolArray:
    """Return a mask of *pending*: jobs that wait for one of our *holds*, or for Slurm's delay after our requeue.

    *queued_again* are our requests after which Slurm queues jobs again.
    """
    jobs = np.array([intent.job_id for intent in holds], dtype=np.int64)
    until_s = np.array([intent.value for intent in holds], dtype=np.float64)
    held = held_rows(pending, jobs, until_s, now_s=now_s, within_s=HOLD_WITHIN_S)
    requeued = [intent.job_id for intent in queued_again if intent.seen_s is not None]
    if requeued:
        delay_s = pending.eligible_s - np.maximum(pending.submitted_s, now_s - REQUEUE_DELAY_S)
        delayed = (pending.eligible_s > now_s) & (delay_s <= REQUEUE_DELAY_S)
        held |= np.isin(pending.job_id, requeued) & delayed
    return held
