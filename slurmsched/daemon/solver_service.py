"""The solver of lease problems beside the cycles."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..cluster.records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from ..cycle import CycleReport
from ..decide.deadlines.solving import problem_after, solver_limit_s
from ..decide.policy import Policy
from ..errors import SlurmschedError
from ..policies.deadlines.lease_solver import LeaseSolver
from .cycle_follower import CycleFollower

logger = logging.getLogger(__name__)


class SolverService(CycleFollower):
    """Hands the problem of the latest cycle to *solver*.

    Where there is no answer the last one stays, which decisions check against what they see, and *no_answer* is called.
    """

    def __init__(
        self, policy: Callable[[], Policy], solver: LeaseSolver, no_answer: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__("solver")
        self._policy, self._solver, self._latest, self._no_answer = policy, solver, NO_SOLVED_STARTS, no_answer

    def latest(self) -> SolvedStarts:
        """Return the latest answer."""
        return self._latest

    def _note(self, report: CycleReport) -> bool:
        return report.mode == "act" and solver_limit_s(self._policy().rules) > 0

    def _work(self) -> None:
        rules, report = self._policy().rules, self._report
        assert report is not None
        request = problem_after(report.view, report.plan, rules)
        solved = None if request is None else self._solver.solve(request, solver_limit_s(rules))
        if solved is not None:
            self._latest = solved

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("the solver gave no answer: %s", error)
        self._no_answer()

    def _abandon(self) -> None:
        self._solver.close()
