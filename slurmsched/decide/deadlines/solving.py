"""The problem of a decided cycle for the solver. Pure."""

from __future__ import annotations

from ...cluster.plan import Plan
from ...cluster.state import View
from ...policies.deadlines.solver_request import SolverRequest
from ..rules import Rules
from .promises import solver_request
from .stops import stops


def solver_limit_s(rules: Rules) -> float:
    """Return the seconds that the solver has after a cycle; 0 where it is off."""
    return 0.0 if rules.deadlines is None else rules.deadlines.terms.solver_s


def problem_after(view: View, plan: Plan, rules: Rules) -> SolverRequest | None:
    """Return the problem that *plan* leaves: promises without a place, and refused jobs; None where there is none."""
    if rules.deadlines is None or not rules.deadlines.terms.solver_s:
        return None
    view = view.changed(promises=plan.promises)
    return solver_request(view, rules.deadlines, stops(view, rules))
