"""Admission of one new job: the promised step and its slack, or the earliest possible end."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .greedy_plan import greedy, perfect
from .lease_plan import solve
from .lease_problem import LeaseProblem
from .milp_solver import Guarded

ROUNDS = 5
"""Number of revisions of a greedy plan before a promise counts as impossible without a solver."""


class AdmissionResult(NamedTuple):
    """The possible promise to a new job, with all earlier promises kept."""

    step: int  #: the first of its steps that can be promised, -1 if none can
    slack: int  #: slots between the earliest end that could be promised and that step's deadline, 0 if none can
    earliest: int | None  #: slots until its earliest end; None if not within the horizon


def admit(problem: LeaseProblem, job: int, solver: Guarded | None = None, limit_s: float = 1.0) -> AdmissionResult:
    """Compute the possible promise to *job* of *problem*, beside promised and fixed jobs.

    Only a plan that keeps all promises counts, so that no promise lacks a plan; a promise that a better plan could keep
    may be refused. If the greedy plan fails, a *solver* searches for *limit_s* seconds.
    """
    request = _bare(problem, job)
    steps = problem.slots[job][problem.values[job] > 0].tolist()
    step = next((step for step, slots in enumerate(steps) if _can_end(request, slots, solver, limit_s)), -1)
    earliest = _earliest(request, steps[step] if step >= 0 else problem.horizon)
    slack = steps[step] - earliest if step >= 0 and earliest is not None else 0
    return AdmissionResult(step, slack, earliest)


def _bare(problem: LeaseProblem, job: int) -> LeaseProblem:
    """Return the problem of the promised and fixed jobs, with only their promised deadlines, and then *job*."""
    others = np.flatnonzero(((problem.promised >= 0) | problem.fixed) & (np.arange(len(problem)) != job))
    rows = np.append(others, job)
    part, promised = problem.take(rows), problem.promised[rows] >= 0
    deadline = part.slots[np.arange(len(rows)), np.maximum(part.promised, 0)]
    promised[-1] = True
    return replace(
        part,
        promised=np.where(promised, 0, -1),
        slots=np.where(promised, deadline, 0)[:, None],
        values=promised[:, None].astype(np.float64),
    )


def _can_end(request: LeaseProblem, slots: int, solver: Guarded | None, limit_s: float) -> bool:
    """Return whether the last job can end within *slots* with all promises kept."""
    deadline = request.slots.copy()
    deadline[-1] = slots
    wanted = replace(request, slots=deadline)
    if request.leases[-1] > slots or slots > request.horizon:
        return False
    if perfect(wanted, greedy(wanted, ROUNDS)):
        return True
    return solver is not None and perfect(wanted, solve(wanted, limit_s, solver, gap=0.0))


def _earliest(request: LeaseProblem, until: int) -> int | None:
    """Return the fewest slots in which a greedy plan ends the last job, by bisection; None if more than *until*."""
    low, high = int(request.leases[-1]), until
    if not _can_end(request, high, None, 0.0):
        return None
    while low < high:
        middle = (low + high) // 2
        if _can_end(request, middle, None, 0.0):
            high = middle
        else:
            low = middle + 1
    return high
