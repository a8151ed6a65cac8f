"""A decision: the plan, and the policy that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.policy import Policy
from ..decide.turns import PartTimes
from . import decide


@dataclass(frozen=True, eq=False)
class Decision:
    """The plan for a view, and the policy that made it: another one than wanted where a plug-in failed."""

    plan: Plan
    policy: Policy
    failed: tuple[str, ...] = ()  #: parts of plug-ins that were left out, as ordering 'mylas'
    trouble: str = ""  #: what happened to them
    took_s: Mapping[str, float] = field(default_factory=dict)  #: processor time by part of the decision


Decider = Callable[[View, Policy], Decision]


def decide_here(view: View, policy: Policy) -> Decision:
    """Decide in this process."""
    plan, took_s = timed(view, policy)
    return Decision(plan, policy, took_s=took_s)


def timed(view: View, policy: Policy) -> tuple[Plan, dict[str, float]]:
    """Return the plan, and the processor time by part of the decision."""
    times = PartTimes()
    plan = decide(view, policy.ordering, policy.rules, times.enter)
    times.enter("")
    return plan, times.took_s
