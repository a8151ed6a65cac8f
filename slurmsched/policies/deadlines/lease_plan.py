"""Planning under a time limit: a greedy plan at once, then the solver; every result is feasible."""

from __future__ import annotations

import time

import numpy as np

from .greedy_plan import perfect
from .lease_milp import VariableColumns, columns_of, grants_of, model_of, start_of
from .lease_problem import LeasePlan, LeaseProblem, plan_of
from .milp_solver import Question, Solver
from .plan_check import violations
from .slot_prices import fixed_value, planned

GAP = 0.01
"""Relative gap to the bound at which a plan is good enough."""


def solve(
    problem: LeaseProblem,
    limit_s: float,
    solver: Solver | None = None,
    gap: float = GAP,
    first: LeasePlan | None = None,
) -> LeasePlan:
    """Return the plan that keeps most promises and, among those, is worth most, within *limit_s* seconds.

    The search begins at the *first* plan, if given and feasible, or at the greedy one. Without a *solver*, or if it
    finds nothing better, one of these is returned. Its ``bound`` holds for all plans, so ``gap`` limits the loss.
    """
    until_s = time.monotonic() + limit_s
    best = planned(problem, gap)
    if first is not None and first.rank > best.rank and not violations(problem, first):
        best = plan_of(problem, first.grants, first.origin, best.bound)
    if solver is None or perfect(problem, best, gap):
        return best
    columns = columns_of(problem, best)
    if not len(columns):
        return best
    promised = int(np.count_nonzero(problem.promised >= 0))
    if best.kept < promised:
        best = _better(problem, columns, best, solver, None, until_s, 0.0)
    return _better(problem, columns, best, solver, best.kept, until_s, gap)


def _better(
    problem: LeaseProblem,
    columns: VariableColumns,
    best: LeasePlan,
    solver: Solver,
    must_keep: int | None,
    until_s: float,
    gap: float,
) -> LeasePlan:
    """Return the solver's plan if it is better than *best*, else *best*, with the improved bound."""
    model = model_of(problem, columns, _chosen(problem, columns, must_keep))
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        return best
    answer = solver(Question(model, start_of(problem, columns, best), left_s, gap))
    bound = best.bound
    if must_keep is not None and columns.complete:
        bound = min(bound, answer.bound + fixed_value(problem))
    found = best
    if answer.values is not None:
        found = plan_of(problem, grants_of(problem, columns, answer.values), "milp")
    better = found if found.rank > best.rank and not violations(problem, found) else best
    return plan_of(problem, better.grants, better.origin, bound)


def _chosen(problem: LeaseProblem, columns: VariableColumns, must_keep: int | None) -> int | None:
    """Return how many of *must_keep* promises the columns must keep: fixed jobs keep theirs anyway."""
    if must_keep is None:
        return None
    met = problem.step_met(np.where(problem.fixed, problem.leases, 0))
    return must_keep - int(np.count_nonzero((met >= 0) & (met <= problem.promised)))
