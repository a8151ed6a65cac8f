"""A second ordering beside the one in force: the jobs that it would run now, recorded and not carried out. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.plan import Placing, Plan
from ..cluster.state import View
from ..decide.policy import Policy
from . import decide


@dataclass(frozen=True)
class ShadowDecision:
    """The jobs that the ordering in shadow would run now, or why they are not known."""

    runs: tuple[int, ...] = ()  #: ids, the first one first
    trouble: str = ""  #: empty if there was none


ShadowDecisions = Callable[[View, Policy], ShadowDecision]


def shadow_here(view: View, policy: Policy) -> ShadowDecision:
    """Decide in shadow in this process; nobody would run without an ordering in shadow."""
    return ShadowDecision() if policy.shadow is None else ShadowDecision(runs_in(shadow_placing(view, policy), view))


def with_shadow(plan: Plan, view: View, policy: Policy) -> Plan:
    """Return *plan* with the jobs that the ordering in shadow would run now; the same plan without such an ordering."""
    return replace(plan, shadow=shadow_here(view, policy).runs)


def shadow_placing(view: View, policy: Policy) -> Placing:
    """Return the placing of each job if the ordering in shadow were in force."""
    policy = in_force(policy)
    return decide(view, policy.ordering, policy.rules).jobs


def in_force(policy: Policy) -> Policy:
    """Return *policy* with the ordering in shadow in force, and without the parts of plug-ins, whose code may hang."""
    assert policy.shadow is not None
    return replace(policy.without_plugins(), ordering=policy.shadow, synthesis=None, shadow=None)


def runs_in(placing: Placing, view: View) -> tuple[int, ...]:
    """Return the ids of the jobs that would run now, the first one first."""
    runs = np.flatnonzero(placing.runs)
    return tuple(view.pending.job_id[runs[np.argsort(placing.rank[runs], kind="stable")]].tolist())


def others_in_shadow(plan: Plan, view: View) -> int:
    """Return the number of jobs that would run now in shadow, and not by *plan*."""
    return len(set(plan.shadow) - set(view.pending.job_id[plan.jobs.runs].tolist()))
