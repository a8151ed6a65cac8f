"""Solver of models: PuLP builds them, HiGHS solves them, within a limit in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import MissingExtra
from .lease_milp import MilpModel


class Solution(NamedTuple):
    """The result of a solver."""

    values: FloatArray | None  #: the best solution, None if none was found in time
    bound: float  #: no solution of this model is worth more


class Question(NamedTuple):
    """The input of a solver."""

    model: MilpModel
    start: FloatArray  #: an initial solution
    limit_s: float
    gap: float  #: a solution this close to the bound is good enough


Solver = Callable[[Question], Solution]


def highs(question: Question) -> Solution:
    """Solve with HiGHS through PuLP, on one thread, so that the answer is deterministic unless time runs out.

    PuLP passes no start to HiGHS, so the start goes to HiGHS directly between building and solving.
    """
    import highspy
    import pulp

    model, began_s = question.model, time.monotonic()
    program = _program(model)
    left_s = max(0.05, question.limit_s - (time.monotonic() - began_s))
    search = pulp.HiGHS(msg=False, threads=1, timeLimit=left_s, gapRel=question.gap)
    search.createAndConfigureSolver(program)
    search.buildSolverModel(program)
    place = np.array([variable.index for variable in program.in_order])
    start = highspy.HighsSolution()
    values = np.empty(len(place))
    values[place] = question.start
    start.col_value = values.tolist()
    program.solverModel.setSolution(start)
    search.callSolver(program)
    info = program.solverModel.getInfo()
    if info.primal_solution_status != highspy.kSolutionStatusFeasible:
        return Solution(None, np.inf)
    return Solution(np.array(program.solverModel.getSolution().col_value)[place], -info.mip_dual_bound)


def _program(model: MilpModel) -> Any:
    """Return *model* as a PuLP problem, with its variables by column as ``in_order``."""
    import pulp

    program: Any = pulp.LpProblem("leases", pulp.LpMaximize)
    kinds = np.where(model.whole, pulp.LpInteger, pulp.LpContinuous).tolist()
    variables = [
        pulp.LpVariable(f"x{column}", 0, most, kind)
        for column, (most, kind) in enumerate(zip(model.most.tolist(), kinds, strict=True))
    ]
    program.addVariables(variables)
    program.in_order = variables
    worth = {variables[column]: float(model.worth[column]) for column in np.flatnonzero(model.worth)}
    program.setObjective(pulp.LpAffineExpression(worth))
    order = np.argsort(model.row, kind="stable")
    cuts = np.searchsorted(model.row[order], np.arange(len(model.lower) + 1))
    column, entry = model.column[order].tolist(), model.entry[order].tolist()
    for row, (lower, upper) in enumerate(zip(model.lower.tolist(), model.upper.tolist(), strict=True)):
        part = range(cuts[row], cuts[row + 1])
        left = pulp.LpAffineExpression({variables[column[at]]: entry[at] for at in part})
        if lower == upper:
            sense, right = pulp.LpConstraintEQ, lower
        elif np.isinf(lower):
            sense, right = pulp.LpConstraintLE, upper
        else:
            sense, right = pulp.LpConstraintGE, lower
        program.addConstraint(pulp.LpConstraint(left, sense, f"r{row}", right))
    return program


def check_installed() -> None:
    """Raise ConfigError if PuLP or HiGHS is missing."""
    from importlib.util import find_spec

    if missing := [name for name in ("pulp", "highspy") if find_spec(name) is None]:
        raise MissingExtra(f"planning leases needs {' and '.join(missing)}", "deadlines")
