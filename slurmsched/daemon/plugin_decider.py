"""Decisions with parts of plug-ins, in a process of their own and within a time limit."""

from __future__ import annotations

import logging

from ..child_process import ChildFailed, ChildProcess
from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide import decision_worker
from ..decide.decision import Decision, decide_here
from ..decide.policy import Policy

logger = logging.getLogger(__name__)

LIMIT_S = 10.0
"""The longest decision, in seconds: the daemon's watchdog waits a minute."""

STARTUP_S = 30.0
"""Seconds in which the process must start and import."""


class PluginDecider:
    """Decides; a policy without plug-ins in this process, any other one in a process that is replaced when it fails.

    Where a plug-in raises, hangs or dies, the decision leaves out all parts of plug-ins: jobs stay in the order that
    they have, and the parts are tried again at the next decision.
    """

    def __init__(self, limit_s: float = LIMIT_S, startup_s: float = STARTUP_S) -> None:
        self._process = ChildProcess(decision_worker.__name__, "decision")
        self._limit_s, self._startup_s = limit_s, startup_s

    def __call__(self, view: View, policy: Policy) -> Decision:
        """Return the decision on *view*, by *policy* or by what is left of it."""
        names = policy.plugins
        if not names:
            return decide_here(view, policy)
        try:
            return Decision(self._decided(view, policy), policy)
        except ChildFailed as error:
            trouble = f"{' and '.join(names)} failed, since {error}: jobs stay in the order that they have"
        logger.error("%s", trouble)
        rest = decide_here(view, policy.without_plugins())
        return Decision(rest.plan, rest.policy, names, trouble)

    def close(self) -> None:
        """Stop the process."""
        self._process.close()

    def _decided(self, view: View, policy: Policy) -> Plan:
        """Return the plan of the process; ChildFailed where there is none."""
        self._process.ask(decision_worker.READY, self._startup_s)
        error, plan = self._process.ask((view, policy.to_json()), self._limit_s)
        if error:
            raise ChildFailed(error)
        decided: Plan = plan
        return decided
