"""The lease schedule: promised jobs as late as is safe, on GPUs that are free or held by jobs that can be stopped.

A job that can be stopped runs in leases (``latest_leases``). One that cannot runs to its end once started, and gets one
reservation (``reservations``), before the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Table
from ...cluster.jobs import JobState, JobTable
from ...cluster.state import View
from .latest_leases import Latest, latest, stretches
from .remaining_work import RemainingWork
from .reservations import DeadlineRequests, Room, latest_plan


@dataclass(frozen=True, eq=False)
class LeaseRequests(Table):
    """Promised jobs that the schedule places: those that can be stopped, and those that wait."""

    gpus: IntArray
    left_s: FloatArray
    due_s: FloatArray
    stoppable: BoolArray


class SchedulePlan(NamedTuple):
    """A plan of promised jobs, in ticks as in ``Latest``."""

    first: IntArray  #: ticks of each job that must begin now
    late: IntArray  #: ticks that do not fit before its end because GPUs are taken
    hopeless: IntArray  #: ticks beyond its end even if the job runs from now on
    starts_s: FloatArray  #: the start of a job with one reservation; infinite for others
    beside_reservations: Room
    bounds_s: FloatArray  #: of the stretches in which jobs run in leases
    used: IntArray  #: most GPUs of these jobs in each stretch

    def left(self) -> Room:
        """Return the GPUs that the plan leaves free."""
        room = self.beside_reservations.copy()
        for gpus, begin_s, end_s in zip(self.used.tolist(), self.bounds_s, self.bounds_s[1:], strict=False):
            if gpus:
                room.lose(np.array([gpus]), float(begin_s), float(end_s))
        return room


@dataclass(frozen=True, eq=False)
class LeaseSchedule:
    """Plans in ticks of *tick_s* from now on, in a *room* of one row."""

    now_s: float
    tick_s: float
    room: Room

    def latest(self, jobs: LeaseRequests, slack_s: float = 0.0, share: float = 0.0) -> SchedulePlan:
        """Return the latest plan by which *jobs* end *slack_s* before their time, with a *share* of the GPUs left over.

        No job is refused its own GPUs by that share. A job with one reservation has the ticks 1 or 0 in place of
        numbers.
        """
        room = self._less(share, int(jobs.gpus.max(initial=0)))
        first, late, hopeless = np.zeros((3, len(jobs)), dtype=np.int64)
        whole, parts = np.flatnonzero(~jobs.stoppable), np.flatnonzero(jobs.stoppable)
        starts_s = np.full(len(jobs), np.inf)
        if len(whole):
            starts_s[whole], room = self._reserved(jobs.take(whole), slack_s, room)
            hopeless[whole], late[whole] = starts_s[whole] == -np.inf, np.isnan(starts_s[whole])
            first[whole] = starts_s[whole] < self.now_s + self.tick_s
        bounds_s, used = self.room.begins_s[:1], np.zeros(0, dtype=np.int64)
        if len(parts):
            bounds_s, plan = self._in_leases(jobs.take(parts), slack_s, room)
            first[parts], late[parts], hopeless[parts], used = plan
        return SchedulePlan(first, late, hopeless, starts_s, room, bounds_s, used)

    def _less(self, share: float, widest: int) -> Room:
        """Return the room without a share of its GPUs, but as far as it goes with room for the *widest* job."""
        free = self.room.free
        kept_back = int(np.ceil(share * free.max(initial=0) - 1e-9))
        return Room(self.room.begins_s, np.maximum(free - kept_back, np.minimum(free, widest)))

    def _reserved(self, jobs: LeaseRequests, slack_s: float, room: Room) -> tuple[FloatArray, Room]:
        """Return the latest start of each job that cannot be stopped, and the room left.

        It is NaN where GPUs are taken, and minus infinity for a job that is late even if it starts now: it takes none.
        """
        able = jobs.due_s - jobs.left_s >= self.now_s
        some, starts_s = jobs.take(able), np.full(len(jobs), -np.inf)
        since_s, rows = np.full(len(some), self.now_s), np.ones((len(some), 1), dtype=np.bool_)
        due_s = np.maximum(some.due_s - slack_s, self.now_s + some.left_s)
        requests = DeadlineRequests(some.gpus, some.left_s, since_s, due_s, rows, some.stoppable)
        starts_s[able], left = latest_plan(room, requests)
        return starts_s, left

    def _in_leases(self, jobs: LeaseRequests, slack_s: float, room: Room) -> tuple[FloatArray, Latest]:
        """Plan jobs that can be stopped; return the bounds of its stretches too."""
        needs = np.ceil(jobs.left_s / self.tick_s - 1e-9)
        # The last tick is not used up: it may begin as late as the deadline less the rest that is left by then.
        spare_s = jobs.due_s - self.now_s - slack_s + needs * self.tick_s - jobs.left_s
        due = np.maximum(np.floor(spare_s / self.tick_s + 1e-9), 0).astype(np.int64)
        bounds_s = self.now_s + self.tick_s * stretches(int(due.max(initial=0))).astype(np.float64)
        return bounds_s, latest(needs.astype(np.int64), due, jobs.gpus, room.least(bounds_s))


def can_be_stopped(jobs: JobTable) -> BoolArray:
    """Select the jobs that save their work and have agreed to be requeued."""
    return np.asarray(jobs.ckpt & jobs.requeueable & ~jobs.interactive)


def placed_by_plans(jobs: JobTable) -> BoolArray:
    """Select the jobs that a schedule places: the others hold their GPUs to their end."""
    return np.asarray(can_be_stopped(jobs) | (jobs.state != JobState.RUNNING))


def steady_room(view: View, work_s: FloatArray, tick_s: float) -> Room:
    """Return the GPUs that no job holds to its end, over time; *work_s* is the time that running jobs still need."""
    total, held = int(view.nodes.gpus[view.nodes.usable].sum()), ~can_be_stopped(view.running)
    ends_s = view.now_s + np.maximum(work_s[held], tick_s)
    begins_s = np.concatenate([[view.now_s], np.unique(ends_s[np.isfinite(ends_s)])])
    gpus = view.running.gpus[held]
    free = [total - int(gpus[ends_s > begin_s].sum()) for begin_s in begins_s.tolist()]
    return Room(begins_s, np.maximum(np.array([free], dtype=np.int64), 0))


def lease_requests(jobs: JobTable, work: RemainingWork, ends_s: FloatArray) -> LeaseRequests:
    """Return the requests of *jobs* to end by *ends_s*."""
    return LeaseRequests(work.gpus, work.left_s, ends_s, can_be_stopped(jobs))
