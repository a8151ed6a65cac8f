"""A decision: the plan, and the policy that made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..cluster.plan import Plan
from ..cluster.state import View
from .engine import decide
from .policy import Policy


@dataclass(frozen=True, eq=False)
class Decision:
    """The plan for a view, and the policy that made it: another one than wanted where a plug-in failed."""

    plan: Plan
    policy: Policy
    failed: tuple[str, ...] = ()  #: parts of plug-ins that were left out, as ordering 'mylas'
    trouble: str = ""  #: what happened to them


Decider = Callable[[View, Policy], Decision]


def decide_here(view: View, policy: Policy) -> Decision:
    """Decide in this process."""
    return Decision(decide(view, policy.ordering, policy.rules), policy)
