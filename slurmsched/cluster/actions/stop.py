"""Stops of running jobs that agree to them: requeues, requests to save and requeue, and early ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Labels, rows_with
from ..events import Value
from ..job_tracker import SAME_TIME_S
from ..jobs import JobState
from .base import JobAction, OwnIntents
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import FloatArray, IntArray
    from ..jobs import JobTable

GIVING_WAY_S = 3600.0
"""The longest time after a stop request in which a requeue of the job counts as its effect."""

SUSPENDED = "it was suspended before it had acted"
"""The reason to ignore a stop request: a suspended job cannot act, and is asked again once it runs."""

ASKS_S = 86_400.0
"""The period over which the stop requests of a job are counted."""


@dataclass(frozen=True)
class Requeue(JobAction):
    """End this run of a job that allows it (``ckpt``) and queue it again, eligible at once."""

    power = "requeue"
    stored = "Requeue"
    story = (("requeue asked", "we asked Slurm to requeue it"),)
    slurm_event = "requeued"

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job was just queued again."""
        return intent.job_id in look.requeued

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once its next run has started."""
        return seen and look.waiting(intent.job_id) is None


@dataclass(frozen=True)
class AskToStop(JobAction):
    """Signal a running job that allows it (``ckpt``) to save its work and queue itself again."""

    signal: str  #: its name, such as URG
    leaves: str = ""  #: overloaded nodes that it is kept off afterwards, a host list; empty where it only makes room
    power = "requeue"
    stored = "AskToStop"
    story = (
        ("asked to stop", "we asked it to save its work and stop (signal {value})"),
        ("asked to leave", "we asked it to save its work and leave overloaded nodes ({value})"),
    )
    slurm_event = "requeued"
    remembered_s = ASKS_S

    @property
    def value(self) -> Value:
        """The signal, and behind a blank the nodes to leave."""
        return f"{self.signal} {self.leaves}".rstrip()

    @property
    def event(self) -> tuple[str, Value]:
        """That it was asked to stop, or to leave nodes."""
        return ("asked to leave", self.leaves) if self.leaves else ("asked to stop", self.value)

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return when jobs were asked, how often, and to leave which nodes."""
        asks = own.lately(cls)
        asked_s, often = ask_counts(asks, jobs, now_s)
        left_nodes, left_s = left(asks, jobs, now_s)
        return {"stop_requested_s": asked_s, "stop_requests": often, "left_nodes": left_nodes, "left_s": left_s}

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job was just queued again."""
        return intent.job_id in look.requeued

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once its next run has started, or an hour after it was asked in vain."""
        if not seen and intent.requested_s < look.now_s - GIVING_WAY_S:
            return True
        return seen and look.waiting(intent.job_id) is None

    @classmethod
    def reads(cls, intent: Intent) -> tuple[str, ...]:
        """Return the column of excluded nodes, where the job is kept off some."""
        return ("excluded_nodes",) if left_nodes(intent) else ()

    @classmethod
    def in_vain(cls, intent: Intent, look: Observation) -> str:
        """Return that the job is suspended: Slurm accepts the request though the signal has no effect."""
        if intent.answered_s is None or intent.refused is not None:
            return ""
        row = look.running_row(intent.job_id)
        return SUSPENDED if row is not None and look.running.state[row] == JobState.SUSPENDED else ""


@dataclass(frozen=True)
class End(JobAction):
    """Answer the next report of a running job that asked for this (``stop=``) with a stop; it then saves and ends."""

    power = "stop"
    stored = "End"
    story = (("may end", "it has what its owner's stop= asks for: we tell it so at its next report"),)
    is_write = False  # the job's own report is answered; it is visible in the job's end alone


def is_answered(intent: Intent) -> bool:
    """Return True for a stop request that Slurm accepted, whether the job could act or not."""
    return intent.answered_s is not None and intent.refused in (None, SUSPENDED)


def left_nodes(intent: Intent) -> str:
    """Return the nodes that a stop request asked a job to leave; empty for none, and for a request in vain."""
    return "" if intent.refused is not None else str(intent.value).partition(" ")[2]


def ask_counts(asks: Iterable[Intent], jobs: JobTable, now_s: float) -> tuple[FloatArray, IntArray]:
    """Return the time of the last stop request to each of *jobs* within a day (NaN for none), and their number.

    A request that Slurm never answered may have been sent: it counts in the number, but not for the time. The same
    holds for a request to a job that was suspended.
    """
    since_s, answered, unsure = now_s - ASKS_S, dict[int, dict[float, bool]](), Counter[int]()
    for intent in asks:
        if intent.answered_s is None:
            unsure[intent.job_id] += intent.requested_s > since_s
        elif intent.answered_s > since_s and is_answered(intent):
            answered.setdefault(intent.job_id, {})[intent.answered_s] = intent.refused is None
    last_s, often = np.full(len(jobs), np.nan), np.zeros(len(jobs), dtype=np.int64)
    for row in rows_with(jobs.job_id, [*answered, *unsure]):
        job, first_s = int(jobs.job_id[row]), jobs.first_submit_s[row] - SAME_TIME_S  # before, another job had the id
        recent = {at_s: acted for at_s, acted in answered.get(job, {}).items() if not at_s < first_s}
        last_s[row] = max((at_s for at_s, acted in recent.items() if acted), default=np.nan)
        often[row] = len(recent) + unsure[job]
    return last_s, often


def left(asks: Collection[Intent], jobs: JobTable, now_s: float) -> tuple[Labels, FloatArray]:
    """Return the nodes that each of *jobs* was last asked to leave within a day, empty for none, and when.

    A request that Slurm never answered may have been sent, and counts.
    """
    since_s, latest = now_s - ASKS_S, dict[int, tuple[float, str]]()
    for intent in asks:
        if nodes := left_nodes(intent):
            answered = intent.answered_s is not None
            at_s = intent.requested_s if intent.answered_s is None else intent.answered_s
            if at_s > since_s or not answered:
                latest[intent.job_id] = max(latest.get(intent.job_id, (since_s, "")), (at_s, nodes))
    names, codes, times_s = [""], np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs))
    for row in rows_with(jobs.job_id, latest):
        at_s, nodes = latest[int(jobs.job_id[row])]
        if nodes and at_s >= jobs.first_submit_s[row] - SAME_TIME_S:  # before that another job had the id
            codes[row], times_s[row] = len(names), at_s
            names.append(nodes)
    return Labels(codes, tuple(names)).renamed(names), times_s
