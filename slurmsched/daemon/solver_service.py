"""The solver of lease problems beside the cycles."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread

from ..child_process import ChildFailed
from ..cluster.records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from ..cycle import CycleReport
from ..decide.deadlines.solving import problem_after, solver_limit_s
from ..decide.policy import Policy
from ..policies.deadlines.lease_solver import LeaseSolver

logger = logging.getLogger(__name__)


class SolverService:
    """Hands the problem of the latest cycle to *solver*; no cycle ever waits for it.

    Where there is no answer the last one stays, which decisions check against what they see, and *no_answer* is called.
    """

    def __init__(
        self, policy: Callable[[], Policy], solver: LeaseSolver, no_answer: Callable[[], None] = lambda: None
    ) -> None:
        self._policy, self._solver, self._latest, self._no_answer = policy, solver, NO_SOLVED_STARTS, no_answer
        self._news, self._stopping = Condition(), False
        self._report: CycleReport | None = None
        self._thread = Thread(target=self._run, name="solver", daemon=True)

    def start(self) -> None:
        """Start to follow cycles."""
        self._thread.start()

    def close(self) -> None:
        """Solve no more; a problem under way is abandoned."""
        with self._news:
            self._stopping = True
            self._news.notify()
        self._solver.close()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def observe(self, report: CycleReport) -> None:
        """Note a cycle; return at once."""
        if report.mode == "act" and solver_limit_s(self._policy().rules):
            with self._news:
                self._report = report
                self._news.notify()

    def latest(self) -> SolvedStarts:
        """Return the latest answer."""
        return self._latest

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._stopping or self._report is not None)
                report, self._report = self._report, None
                if self._stopping or report is None:
                    return
            try:
                self._solve(report)
            except ChildFailed as error:
                if not self._stopping:
                    logger.warning("the solver gave no answer: %s", error)
                    self._no_answer()
            except Exception:  # a bug here must not cost more than the solver
                logger.exception("a bug in the solver, please report it; it ends here")
                return

    def _solve(self, report: CycleReport) -> None:
        rules = self._policy().rules
        request = problem_after(report.view, report.plan, rules)
        solved = None if request is None else self._solver.solve(request, solver_limit_s(rules))
        if solved is not None:
            self._latest = solved
