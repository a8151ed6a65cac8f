"""Decisions with parts of plug-ins, in a process of their own and within a time limit."""

from __future__ import annotations

import logging

from ..child_process import ChildFailed
from ..cluster.state import View
from ..decide.policy import Policy
from ..powers.decision import Decision, decide_here
from .plan_process import STARTUP_S, PlanProcess

logger = logging.getLogger(__name__)

LIMIT_S = 10.0
"""The longest decision, in seconds: the daemon's watchdog waits a minute."""


class PluginDecider:
    """Decides; a policy without plug-ins in this process, any other one in a process that is replaced when it fails.

    Where a plug-in raises, hangs or dies, the decision leaves out all parts of plug-ins: jobs stay in the order that
    they have, and the parts are tried again at the next decision.
    """

    def __init__(self, limit_s: float = LIMIT_S, startup_s: float = STARTUP_S) -> None:
        self._process = PlanProcess("decision", limit_s, startup_s)

    def __call__(self, view: View, policy: Policy) -> Decision:
        """Return the decision on *view*, by *policy* or by what is left of it."""
        names = policy.plugins
        if not names:
            return decide_here(view, policy)
        try:
            plan, took_s = self._process.plan(view, policy)
            return Decision(plan, policy, took_s=took_s)
        except ChildFailed as error:
            trouble = f"{' and '.join(names)} failed, since {error}: jobs stay in the order that they have"
        logger.error("%s", trouble)
        rest = decide_here(view, policy.without_plugins())
        return Decision(rest.plan, rest.policy, names, trouble, rest.took_s)

    def close(self) -> None:
        """Stop the process."""
        self._process.close()
