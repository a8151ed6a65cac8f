"""Plans made in a process of their own and within a time limit, since what makes them may raise, hang or die."""

from __future__ import annotations

from ..child_process import ChildFailed, ChildProcess
from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.policy import Policy
from ..powers import decision_worker

STARTUP_S = 30.0
"""Seconds in which the process must start and import."""


class PlanProcess:
    """A process that decides, and is replaced when it fails; *limit_s* bounds one decision."""

    def __init__(self, product: str, limit_s: float, startup_s: float = STARTUP_S) -> None:
        self._process = ChildProcess(decision_worker.__name__, product)
        self._limit_s, self._startup_s = limit_s, startup_s

    def plan(self, view: View, policy: Policy) -> tuple[Plan, dict[str, float]]:
        """Return the plan of *policy* for *view*, with the time by part; ChildFailed where there is none."""
        self._process.ask(decision_worker.READY, self._startup_s)
        error, answer = self._process.ask((view, policy.to_json()), self._limit_s)
        if error:
            raise ChildFailed(error)
        decided: tuple[Plan, dict[str, float]] = answer
        return decided

    def close(self) -> None:
        """Stop the process."""
        self._process.close()
