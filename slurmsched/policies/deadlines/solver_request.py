"""Requests to the solver: the promises of a view and its refused jobs as a lease problem, and answers as starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.solved_starts import SolvedStarts
from .greedy_plan import completed
from .lease_problem import LeasePlan, LeaseProblem
from .lease_schedule import LeaseSchedule
from .reservations import DeadlineRequests, together

MOST_SLOTS = 2_016
"""The horizon of a problem: a week of slots of five minutes."""


AGAIN_S = 600.0
"""Seconds after which the same jobs are a new problem, since others may have ended sooner than planned."""


@dataclass(frozen=True, eq=False)
class SolverRequest:
    """A lease problem about jobs of a view of *now_s*, in slots of *tick_s* from *begin_s* on."""

    problem: LeaseProblem
    job_id: IntArray
    now_s: float
    begin_s: float
    tick_s: float
    first: LeasePlan  #: the plan that the search begins at

    def is_news_after(self, last: SolverRequest | None) -> bool:
        """Return True if it is about other jobs than the *last* one, or AGAIN_S later."""
        if last is None or self.now_s - last.now_s >= AGAIN_S:
            return True
        return not np.array_equal(np.sort(self.job_id), np.sort(last.job_id))

    def starts(self, plan: LeasePlan) -> SolvedStarts:
        """Return the starts in *plan* of the jobs that it serves and that cannot be stopped."""
        rows = np.flatnonzero(self.problem.contiguous & (plan.step >= 0))
        begin = plan.grants[rows].argmax(axis=1)
        return SolvedStarts(self.job_id[rows], self.begin_s + self.tick_s * begin, np.full(len(rows), self.now_s))


def request_of(
    schedule: LeaseSchedule,
    held: DeadlineRequests,
    refused: DeadlineRequests,
    steps: list[list[tuple[float, float]]],
    spare_s: float,
) -> SolverRequest | None:
    """Return the promises *held* and the *refused* jobs, with their *steps*, as one problem.

    None if each promise has a place and nobody was refused. GPUs count in one row of room, that of most refused jobs; a
    plan that does not fit the other rows is of no use. Each start may take *spare_s*, and the answer as long.
    """
    starts_s = schedule.reserved(held, 0.0, schedule.room).starts_s
    without_place = together([held.take(np.isnan(starts_s) & ~held.stoppable), refused])
    if not len(without_place) or not without_place.rows.any():
        return None
    row, every = int(without_place.rows.sum(axis=0).argmax()), together([held, refused])
    begin_s, every = schedule.now_s + spare_s, replace(every, needs_s=every.needs_s + spare_s)
    able = every.rows[:, row] & (every.due_s - every.needs_s >= begin_s)
    of_each = [[(due_s, 1.0)] for due_s in held.due_s.tolist()] + steps
    jobs, promised = every.take(able), np.where(np.arange(len(every)) < len(held), 0, -1)[able]
    slots, values = _steps([one for one, fits in zip(of_each, able.tolist(), strict=True) if fits], begin_s)
    leases = np.maximum(np.ceil(jobs.needs_s / schedule.tick_s - 1e-9), 1).astype(np.int64)
    # A deadline that rounding down to whole slots would put out of a job's reach is rounded up.
    whole = np.minimum(np.floor(slots / schedule.tick_s + 1e-9), MOST_SLOTS).astype(np.int64)
    whole = np.where(slots >= jobs.needs_s[:, None], np.maximum(whole, leases[:, None]), whole)
    bounds_s = begin_s + schedule.tick_s * np.arange(int(whole.max(initial=1)) + 1, dtype=np.float64)
    capacity = np.maximum(schedule.room.least(bounds_s)[[row]], 0)
    never = np.zeros(len(jobs), dtype=np.bool_)
    problem = LeaseProblem(jobs.gpus, leases, ~jobs.stoppable, never, promised, whole, values, capacity)
    slot = np.floor((schedule.solved.of(jobs.job_id) - begin_s) / schedule.tick_s)
    first = completed(problem, np.where(np.isnan(slot), -1, np.maximum(slot, 0)).astype(np.int64))
    return SolverRequest(problem, jobs.job_id, schedule.now_s, begin_s, schedule.tick_s, first)


def _steps(of_each: list[list[tuple[float, float]]], now_s: float) -> tuple[FloatArray, FloatArray]:
    """Return the seconds until each step and its worth, job x step, zero for no step."""
    most = max([1, *map(len, of_each)])
    until_s, worth = np.zeros((2, len(of_each), most))
    for row, steps in enumerate(of_each):
        place = 0
        for moment_s, value in steps:
            ahead_s = max(moment_s - now_s, 0.0)
            if place and not (ahead_s >= until_s[row, place - 1] and 0 < value <= worth[row, place - 1]):
                continue  # a comment may have any steps
            until_s[row, place], worth[row, place], place = ahead_s, value, place + 1
    return until_s, worth
