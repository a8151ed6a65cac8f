"""The solver beside the cycles: a lease problem goes to a process of its own, and planned starts come back."""

from __future__ import annotations

from ...child_process import ChildProcess
from ...cluster.records.solved_starts import SolvedStarts
from . import solver_worker
from .lease_problem import LeasePlan
from .solver_request import SolverRequest

STARTUP_S = 60.0
"""Seconds that an answer may take beyond the limit: the process starts, imports and compiles."""


class LeaseSolver:
    """The solver in a process of its own, which is ended if it does not answer in time and replaced at the next use."""

    def __init__(self, worker: str = solver_worker.__name__, startup_s: float = STARTUP_S) -> None:
        self._process, self._startup_s = ChildProcess(worker, "lease plan"), startup_s
        self._answered: SolverRequest | None = None

    def solve(self, request: SolverRequest, limit_s: float) -> SolvedStarts | None:
        """Return the starts of the best plan found within *limit_s*; None where the last answer still holds.

        ChildFailed where there is no answer.
        """
        if not request.is_news_after(self._answered):
            return None
        question = (request.problem, limit_s, request.first)
        plan: LeasePlan = self._process.ask(question, limit_s + self._startup_s)
        self._answered = request
        return request.starts(plan)

    def close(self) -> None:
        """Stop the process, also in the middle of an answer."""
        self._process.close()
