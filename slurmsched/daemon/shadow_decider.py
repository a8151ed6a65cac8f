"""The ordering in shadow, in a process of its own: whatever it does costs no cycle anything but its own record."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..child_process import ChildFailed
from ..clock import Clock
from ..cluster.state import View
from ..decide.policy import Policy
from ..powers.shadow import ShadowDecision, in_force, runs_in
from .plan_process import STARTUP_S, PlanProcess

logger = logging.getLogger(__name__)

LIMIT_S = 5.0
"""The longest decision in shadow, in seconds: cycles wait for it after their writes."""

AGAIN_S = 600.0
"""An ordering that failed is tried again after so long, or when it is another one."""


class ShadowDecider:
    """Decides in shadow; *failed* is called for each failure. One warning is logged until it succeeds again."""

    def __init__(
        self,
        clock: Clock,
        failed: Callable[[], None] = lambda: None,
        limit_s: float = LIMIT_S,
        startup_s: float = STARTUP_S,
    ) -> None:
        self._process = PlanProcess("decision in shadow", limit_s, startup_s)
        self._clock, self._failed = clock, failed
        self._line, self._again_s, self._failures = "", 0.0, 0
        self.trouble = ""  #: why nothing is recorded of the ordering in shadow; empty while it works

    def __call__(self, view: View, policy: Policy) -> ShadowDecision:
        """Return what the ordering in shadow would run now; without it, and with the reason, after a failure."""
        if policy.shadow is None:
            self._line, self.trouble = "", ""
            return ShadowDecision()
        if policy.shadow.line == self._line and self.trouble and self._clock.monotonic() < self._again_s:
            return ShadowDecision(trouble=self.trouble)
        if policy.shadow.line != self._line:
            self._line, self.trouble, self._failures = policy.shadow.line, "", 0
        try:
            plan, _ = self._process.plan(view, in_force(policy))
        except ChildFailed as error:
            self._note(policy.shadow.name, str(error))
            return ShadowDecision(trouble=self.trouble)
        self.trouble, self._failures = "", 0
        return ShadowDecision(runs_in(plan.jobs, view))

    def close(self) -> None:
        """Stop the process."""
        self._process.close()

    def _note(self, name: str, reason: str) -> None:
        warned, self._failures = bool(self.trouble), self._failures + 1
        times = "" if self._failures == 1 else f" {self._failures} times"
        self.trouble = f"{name} in shadow failed{times}, since {reason}: nothing is recorded of it for {AGAIN_S:.0f} s"
        self._again_s = self._clock.monotonic() + AGAIN_S
        self._failed()
        if not warned:
            logger.warning("%s", self.trouble)
