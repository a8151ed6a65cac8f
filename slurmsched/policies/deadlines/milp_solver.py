"""Solver of models: PuLP builds them, HiGHS solves them, in a separate process that may crash or hang safely.

The only part of planning with a clock: after a limit in seconds the caller goes on without an answer.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import MissingExtra
from ...interpreter import safe_children
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


def _serve(solver: Solver, line: Connection) -> None:
    """Answer questions until the connection closes, after a first message that the solver is ready."""
    if solver is highs:
        import highspy  # noqa: F401
        import pulp  # noqa: F401
    try:
        line.send(None)
        while True:
            line.send(solver(line.recv()))
    except (EOFError, BrokenPipeError):
        pass


class Guarded:
    """A solver in a separate process, which is killed if it does not answer in time. Release it with ``close``.

    A process that crashed or was killed is replaced at the next question. ConfigError if a dependency is missing.
    """

    def __init__(self, solver: Solver = highs) -> None:
        if solver is highs:
            check_installed()
        self._solver = solver
        self._process: multiprocessing.process.BaseProcess | None = None
        self._line: Connection | None = None
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def solve(self, question: Question) -> Solution | None:
        """Return the answer, or None if there is none within ``limit_s`` seconds."""
        until_s = time.monotonic() + question.limit_s
        line = self._started()
        try:
            # A question exceeds the pipe's buffer: sending it before the process reads would block.
            if not self._ready and not line.poll(question.limit_s):
                return None
            if not self._ready:
                self._ready = line.recv() is None
            left_s = max(0.0, until_s - time.monotonic())
            line.send(question._replace(limit_s=0.8 * left_s))
            if line.poll(max(0.0, until_s - time.monotonic())):
                answer: Solution = line.recv()
                return answer
        except (EOFError, OSError):
            pass
        self.close()
        return None

    def close(self) -> None:
        """Kill the process, if any."""
        if self._process is not None and self._line is not None:
            self._line.close()
            self._process.kill()
            self._process.join()
            self._process.close()
        self._process = self._line = None
        self._ready = False

    def _started(self) -> Connection:
        if self._line is None:
            context = multiprocessing.get_context("spawn")
            self._line, theirs = context.Pipe()
            with safe_children():
                self._process = context.Process(target=_serve, args=(self._solver, theirs), daemon=True)
                self._process.start()
            theirs.close()
        return self._line


def check_installed() -> None:
    """Raise ConfigError if PuLP or HiGHS is missing."""
    from importlib.util import find_spec

    if missing := [name for name in ("pulp", "highspy") if find_spec(name) is None]:
        raise MissingExtra(f"planning leases needs {' and '.join(missing)}", "deadlines")
