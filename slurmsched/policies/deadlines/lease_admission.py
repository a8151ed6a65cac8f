"""The answer to one new job: promised, with how much to spare; or not, and when it could be done at the earliest."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .greedy_plan import greedy, perfect
from .lease_plan import solve
from .lease_problem import LeaseProblem
from .milp_solver import Guarded

ROUNDS = 5
"""How often a greedy plan is mended before a promise is held to be impossible without a solver."""


class AdmissionResult(NamedTuple):
    """What can be promised to a new job; all promises made before are kept."""

    step: int  #: the first of its steps that can be promised, -1 where none can
    slack: int  #: slots between the earliest end that could be promised and that step's deadline, 0 where none can
    earliest: int | None  #: slots after which it could end at the earliest; None where not within the horizon


def admit(problem: LeaseProblem, job: int, solver: Guarded | None = None, limit_s: float = 1.0) -> AdmissionResult:
    """What can be promised to *job* of *problem*, beside the jobs that have been promised something or are fixed.

    Only a plan that keeps all promises counts, so no promise is made that has no plan; a promise may be refused that
    a better plan could keep. A *solver* looks, for *limit_s* seconds, where the greedy plan finds no way.
    """
    request = _bare(problem, job)
    steps = problem.slots[job][problem.values[job] > 0].tolist()
    step = next((step for step, slots in enumerate(steps) if _can_end(request, slots, solver, limit_s)), -1)
    earliest = _earliest(request, steps[step] if step >= 0 else problem.horizon)
    slack = steps[step] - earliest if step >= 0 and earliest is not None else 0
    return AdmissionResult(step, slack, earliest)


def _bare(problem: LeaseProblem, job: int) -> LeaseProblem:
    """The promised and fixed jobs of *problem*, each with its promised deadline alone, and then *job*."""
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
    """Whether the last job can end within *slots*, with all promises kept that can be kept without it."""
    deadline = request.slots.copy()
    deadline[-1] = slots
    wanted = replace(request, slots=deadline)
    if request.leases[-1] > slots or slots > request.horizon:
        return False
    if perfect(wanted, greedy(wanted, ROUNDS)):
        return True
    return solver is not None and perfect(wanted, solve(wanted, limit_s, solver, gap=0.0))


def _earliest(request: LeaseProblem, until: int) -> int | None:
    """The fewest slots within which a greedy plan has the last job end, by bisection; None where not by *until*."""
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
