"""Suspension: running jobs that stop in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import rows_with
from ..job_tracker import SAME_TIME_S
from ..jobs import JobState
from .base import Action, JobAction, OwnIntents
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import BoolArray, FloatArray
    from ..jobs import JobTable

REMEMBERED_S = 7 * 86_400.0
"""How long the time counts for which a job was suspended by us."""

LATE_S = 300.0
"""A request without an answer may take effect so much later."""


@dataclass(frozen=True)
class Suspend(JobAction):
    """Stop a running job in place; its GPUs and memory stay taken."""

    power = "suspend"
    stored = "Suspend"
    story = (("suspended", "we suspended it"),)
    modifies = "suspended"
    remembered_s = REMEMBERED_S

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return since when we have jobs suspended, until when they rest from that, and how long it was in all."""
        return own_suspensions(own, jobs, now_s)

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return nothing: no run of a waiting job is suspended."""
        return {}

    @classmethod
    def undone_of_running(cls, own: OwnIntents, running: JobTable) -> list[Action]:
        """Return the ends of our suspensions that are in force; those of others stay."""
        suspended = running.job_id[_suspended(running)]
        return [Resume(int(suspended[row])) for row in rows_with(suspended, [one.job_id for one in own.of(cls)])]

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job is suspended."""
        return _is(JobState.SUSPENDED, intent, look)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once it goes on, or waits again; a suspension after that is somebody else's."""
        row = look.running_row(intent.job_id)
        if row is None:
            return True
        late = look.now_s > intent.requested_s + LATE_S
        return bool(look.running.state[row] != JobState.SUSPENDED) and (seen or late)


@dataclass(frozen=True)
class Resume(JobAction):
    """Continue a suspended job."""

    power = "suspend"
    stored = "Resume"
    story = (("resumed", "we resumed it"),)
    modifies = "resumed"
    returned = "resumed", "{jobs} that we had suspended run again"

    @property
    def gives_back(self) -> bool:
        """True: the job goes on."""
        return True

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job runs."""
        return _is(JobState.RUNNING, intent, look)


def _is(wanted: JobState, intent: Intent, look: Observation) -> bool:
    row = look.running_row(intent.job_id)
    return row is not None and bool(look.running.state[row] == wanted)


def own_suspensions(own: OwnIntents, jobs: JobTable, now_s: float) -> dict[str, FloatArray]:
    """Return the columns of our suspensions of running *jobs*, in this run of each.

    An open one counts while Slurm shows the job as suspended: from then on until it runs again, it is ours.
    """
    since_s, rested_s, paused_s = np.zeros((3, len(jobs)))
    times = _times(own, now_s)
    suspended = _suspended(jobs)
    for row in rows_with(jobs.job_id, times):
        begun_s = float(np.nan_to_num(jobs.started_s[row], nan=-np.inf)) - SAME_TIME_S
        for from_s, until_s in times[int(jobs.job_id[row])]:
            if from_s < begun_s or (until_s is None and not suspended[row]):
                continue
            lasted_s = max((now_s if until_s is None else until_s) - from_s, 0.0)
            paused_s[row] += lasted_s
            if until_s is None:
                since_s[row] = from_s
            else:
                rested_s[row] = max(rested_s[row], until_s + lasted_s)
    return {"suspended_s": since_s, "rested_s": rested_s, "paused_s": paused_s}


def _times(own: OwnIntents, now_s: float) -> dict[int, list[tuple[float, float | None]]]:
    """Return the begin and the end, None while it lasts, of our suspensions by job; of several open ones the first."""
    found: dict[int, list[tuple[float, float | None]]] = {}
    some: Collection[Intent] = {intent.key: intent for intent in (*own.lately(Suspend), *own.of(Suspend))}.values()
    for intent in sorted(some, key=lambda intent: intent.requested_s):
        from_s = intent.requested_s if intent.answered_s is None else intent.answered_s
        mine = found.setdefault(intent.job_id, [])
        if intent.closed_s is None and mine and mine[-1][1] is None:
            continue
        if intent.closed_s is None or intent.seen_s is not None:
            mine.append((min(from_s, now_s), intent.closed_s))
    return found


def _suspended(jobs: JobTable) -> BoolArray:
    return np.asarray(jobs.state == JobState.SUSPENDED, dtype=np.bool_)
