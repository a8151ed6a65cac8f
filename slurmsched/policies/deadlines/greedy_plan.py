"""Greedy plans within a millisecond: earliest deadline first, then jobs that lost reward move forward."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import compiled
from .lease_problem import LeasePlan, LeaseProblem, plan_of

ROUNDS = 20
"""Number of revisions of an order before the best plan so far is taken."""


def greedy(problem: LeaseProblem, rounds: int = ROUNDS, gap: float = 0.0) -> LeasePlan:
    """Return the best of several greedy plans: promised jobs first, each job as early as it fits.

    The orders tried are earliest deadline, least laxity and largest value per GPU and lease. Each is revised *rounds*
    times: jobs that earned less than they could move forward (squeaky wheel). It stops once no plan can be better.
    """
    best = _planned(problem, _order(problem, _deadline(problem)))
    area = problem.gpus * problem.leases
    for key in (_deadline(problem), _deadline(problem) - problem.leases, -problem.values[:, 0] / area):
        key = key.astype(np.float64)
        for _ in range(rounds):
            plan = _planned(problem, _order(problem, key))
            best = max(best, plan, key=lambda one: one.rank)
            if perfect(problem, best, gap):
                return best
            key = _mended(problem, key, plan)
    return best


def perfect(problem: LeaseProblem, plan: LeasePlan, gap: float = 0.0) -> bool:
    """Return whether every promise is kept and the plan is within *gap* of the bound."""
    return plan.kept == int(np.count_nonzero(problem.promised >= 0)) and plan.gap <= gap


def _deadline(problem: LeaseProblem) -> FloatArray:
    """Return the slot by which each job should end: that of the promised step, else of the first one."""
    rows = np.arange(len(problem))
    return problem.slots[rows, np.maximum(problem.promised, 0)].astype(np.float64)


def _order(problem: LeaseProblem, key: FloatArray) -> IntArray:
    """Return the jobs to plan: promised ones first, then by *key*, ties by falling GPUs times leases."""
    order = np.lexsort((-problem.gpus * problem.leases, key, problem.promised < 0))
    return order[~problem.fixed[order]]


def _mended(problem: LeaseProblem, key: FloatArray, plan: LeasePlan) -> FloatArray:
    """Return *key* with each job moved forward in proportion to the share of its reward that it lost."""
    rows = np.arange(len(problem))
    earned = np.where(plan.step >= 0, problem.values[rows, np.maximum(plan.step, 0)], 0.0)
    full = problem.values[:, 0]
    lost = np.divide(full - earned, full, out=np.zeros(len(problem)), where=full > 0)
    mended: FloatArray = key - lost * max(1.0, 0.1 * float(np.ptp(key)) if len(key) else 1.0)
    return mended


def _planned(problem: LeaseProblem, order: IntArray) -> LeasePlan:
    grants = np.zeros((len(problem), problem.horizon), np.bool_)
    for job in np.flatnonzero(problem.fixed):
        grants[job, : problem.leases[job]] = True
    place(
        order,
        problem.gpus,
        problem.leases,
        problem.contiguous,
        problem.level,
        problem.last,
        problem.free.copy(),
        grants,
    )
    return plan_of(problem, grants, "greedy")


def completed(problem: LeaseProblem, begin: IntArray) -> LeasePlan:
    """Return the plan in which contiguous jobs begin in the slots *begin*, and the others are placed beside them.

    A negative slot stands for a job that is not planned yet. The plan may be impossible.
    """
    grants, free = np.zeros((len(problem), problem.horizon), np.bool_), problem.free.copy()
    set_jobs = problem.contiguous & (begin >= 0) & (begin + problem.leases <= problem.last)
    for job in np.flatnonzero(set_jobs).tolist():
        until = begin[job] + problem.leases[job]
        grants[job, begin[job] : until] = True
        free[: problem.level[job] + 1, begin[job] : until] -= problem.gpus[job]
    order = _order(problem, _deadline(problem))
    columns = (problem.gpus, problem.leases, problem.contiguous, problem.level, problem.last)
    place(order[~set_jobs[order]], *columns, free, grants)
    return plan_of(problem, grants, "greedy")


@compiled
def place(
    order: IntArray,
    gpus: IntArray,
    leases: IntArray,
    contiguous: BoolArray,
    level: IntArray,
    last: IntArray,
    free: IntArray,
    grants: BoolArray,
) -> None:
    """Grant each job of *order* its leases in the earliest slots with room before *last*, taking them from *free*.

    A job that does not fit gets none.
    """
    for job in order:
        needs = leases[job]
        begin, found = 0, 0
        for slot in range(last[job]):
            fits = True
            for below in range(level[job] + 1):
                fits = fits and free[below, slot] >= gpus[job]
            if fits:
                found += 1
                if found == needs:
                    break
            elif contiguous[job]:
                found, begin = 0, slot + 1
        if found < needs:
            continue
        slot, left = begin, needs
        while left > 0:
            fits = True
            for below in range(level[job] + 1):
                fits = fits and free[below, slot] >= gpus[job]
            if fits:
                grants[job, slot] = True
                left -= 1
                for below in range(level[job] + 1):
                    free[below, slot] -= gpus[job]
            slot += 1
