"""The lease schedule: promised jobs as late as is safe, on GPUs that are free or held by jobs that can be stopped.

A job that can be stopped runs in leases (``latest_leases``). One that cannot runs to its end once started, and gets one
reservation (``reservations``), before the others. Both count in rows of room: sets of nodes, in blocks of some size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from ...cluster.state import View
from .latest_leases import Latest, latest, stretches
from .remaining_work import RemainingWork
from .reservations import DeadlineRequests, Room, latest_plan


class SchedulePlan(NamedTuple):
    """A plan of promised jobs, in ticks as in ``Latest``."""

    first: IntArray  #: ticks of each job that must begin now
    late: IntArray  #: ticks that do not fit before its end because GPUs are taken
    hopeless: IntArray  #: ticks beyond its end even if the job runs from now on
    starts_s: FloatArray  #: the start of a job with one reservation; infinite for others
    beside_reservations: Room
    bounds_s: FloatArray  #: of the stretches in which jobs run in leases
    used: IntArray  #: most GPUs of these jobs, row of room x stretch
    solved: bool  #: reservations follow the solver

    def left(self) -> Room:
        """Return the GPUs that the plan leaves free."""
        room = self.beside_reservations.copy()
        for stretch in np.flatnonzero(self.used.any(axis=0)).tolist():
            room.lose(self.used[:, stretch], float(self.bounds_s[stretch]), float(self.bounds_s[stretch + 1]))
        return room


class Reservations(NamedTuple):
    """Reservations of jobs that cannot be stopped."""

    starts_s: FloatArray
    left: Room
    solved: bool  #: they follow the solver


@dataclass(frozen=True, eq=False)
class LeaseSchedule:
    """Plans in ticks of *tick_s* from now on, in the rows of a *room*."""

    now_s: float
    tick_s: float
    room: Room
    solved: SolvedStarts = NO_SOLVED_STARTS
    before: SolvedStarts = NO_SOLVED_STARTS  #: the starts of the plan before this one

    def beside(self, jobs: DeadlineRequests) -> LeaseSchedule:
        """Return a schedule beside *jobs*, which have their GPUs from now until they are due, free or not."""
        room = self.room.copy(2 * len(jobs))
        for gpus, rows, due_s in zip(jobs.gpus.tolist(), jobs.rows, jobs.due_s.tolist(), strict=True):
            room.take(rows, gpus, self.now_s, due_s)
        return replace(self, room=room)

    def latest(self, jobs: DeadlineRequests, slack_s: float = 0.0, share: float = 0.0) -> SchedulePlan:
        """Return the latest plan by which *jobs* end *slack_s* before their time, with a *share* of the GPUs left over.

        No job is refused its own GPUs by that share. A job with one reservation has the ticks 1 or 0 in place of
        numbers.
        """
        room = self.room.less(share, int(jobs.gpus.max(initial=0)))
        first, late, hopeless = np.zeros((3, len(jobs)), dtype=np.int64)
        whole, parts = np.flatnonzero(~jobs.stoppable), np.flatnonzero(jobs.stoppable)
        starts_s, solved = np.full(len(jobs), np.inf), False
        if len(whole):
            starts_s[whole], room, solved = self.reserved(jobs.take(whole), slack_s, room)
            hopeless[whole], late[whole] = starts_s[whole] == -np.inf, np.isnan(starts_s[whole])
            first[whole] = starts_s[whole] < np.maximum(jobs.since_s[whole], self.now_s) + self.tick_s
        bounds_s, plan = self.in_leases(jobs.take(parts), room, slack_s)
        first[parts], late[parts], hopeless[parts] = plan.first, plan.late, plan.hopeless
        return SchedulePlan(first, late, hopeless, starts_s, room, bounds_s, plan.used, solved)

    def reserved(self, jobs: DeadlineRequests, slack_s: float, room: Room) -> Reservations:
        """Return the latest start of each job that cannot be stopped, and the room left.

        It is NaN where GPUs are taken, and minus infinity for a job that is late even if it starts now: it takes none.
        Where some find no place, jobs begin no later than in the plan before this one, or than the solver planned, if
        some of these have a place then and no other job loses its own.
        """
        able = jobs.due_s - jobs.needs_s >= self.now_s
        some, starts_s = jobs.take(able), np.full(len(jobs), -np.inf)
        soonest_s = np.maximum(some.since_s, self.now_s) + some.needs_s
        due_s = np.maximum(some.due_s - slack_s, np.minimum(some.due_s, soonest_s))
        starts_s[able], left = latest_plan(room, replace(some, due_s=due_s))
        lost, solved = np.isnan(starts_s[able]), False
        for starts in (self.before, self.solved):
            planned_s = starts.of(some.job_id) if lost.any() else np.zeros(0)
            if not np.isfinite(planned_s).any():
                continue
            by_s = np.fmin(due_s, np.maximum(planned_s, some.since_s) + some.needs_s)
            again_s, left_again = latest_plan(room, replace(some, due_s=by_s))
            lost_again = np.isnan(again_s)
            if lost_again.sum() < lost.sum() and not (lost_again & ~lost).any():
                starts_s[able], left, lost, solved = again_s, left_again, lost_again, starts is self.solved
        return Reservations(starts_s, left, solved)

    def in_leases(self, jobs: DeadlineRequests, room: Room, slack_s: float = 0.0) -> tuple[FloatArray, Latest]:
        """Plan jobs that can be stopped in *room*; return the bounds of its stretches too.

        A job of which no end is known is hopeless by one tick.
        """
        ahead_s = np.maximum(jobs.due_s - self.now_s, 0.0)
        needs_s = np.where(np.isinf(jobs.needs_s), ahead_s + self.tick_s, jobs.needs_s)
        needs = np.ceil(needs_s / self.tick_s - 1e-9)
        # The last tick is not used up: it may begin as late as the deadline less the rest that is left by then.
        spare_s = jobs.due_s - self.now_s - slack_s + needs * self.tick_s - needs_s
        due = np.maximum(np.floor(spare_s / self.tick_s + 1e-9), 0).astype(np.int64)
        bounds_s = self.now_s + self.tick_s * stretches(int(due.max(initial=0))).astype(np.float64)
        return bounds_s, latest(needs.astype(np.int64), due, jobs.gpus, self._capacity(room, bounds_s), jobs.rows)

    def _capacity(self, room: Room, bounds_s: FloatArray) -> IntArray:
        """Return the GPUs of each row in each stretch; those that come free during the first tick count for it."""
        capacity = room.least(bounds_s)
        if capacity.shape[1]:
            capacity[:, 0] = np.maximum(capacity[:, 0], room.at(float(bounds_s[1])))
        return np.maximum(capacity, 0)


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


def lease_requests(jobs: JobTable, work: RemainingWork, now_s: float, ends_s: FloatArray) -> DeadlineRequests:
    """Return the requests of *jobs* to end by *ends_s*, on one pool of GPUs."""
    return DeadlineRequests(
        gpus=work.gpus,
        needs_s=work.left_s,
        since_s=np.full(len(jobs), now_s),
        due_s=ends_s,
        rows=np.ones((len(jobs), 1), dtype=np.bool_),
        stoppable=can_be_stopped(jobs),
        job_id=jobs.job_id,
        runs=jobs.state == JobState.RUNNING,
        resume_s=work.resume_s,
    )
