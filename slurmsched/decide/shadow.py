"""A second ordering beside the one in force: the jobs that it would run now, recorded and not carried out. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.plan import Placing, Plan
from ..cluster.state import View
from .engine import decide
from .policy import Policy


def with_shadow(plan: Plan, view: View, policy: Policy) -> Plan:
    """Return *plan* with the jobs that the ordering in shadow would run now; the same plan without such an ordering."""
    if policy.shadow is None:
        return plan
    placing = shadow_placing(view, policy)
    runs = np.flatnonzero(placing.runs)
    runs = runs[np.argsort(placing.rank[runs], kind="stable")]
    return replace(plan, shadow=tuple(view.pending.job_id[runs].tolist()))


def shadow_placing(view: View, policy: Policy) -> Placing:
    """Return the placing of each job if the ordering in shadow were in force."""
    assert policy.shadow is not None
    rules = policy.without_plugins().rules  # whose code may hang
    return decide(view, policy.shadow, rules).jobs


def others_in_shadow(plan: Plan, view: View) -> int:
    """Return the number of jobs that would run now in shadow, and not by *plan*."""
    return len(set(plan.shadow) - set(view.pending.job_id[plan.jobs.runs].tolist()))
