"""The powers: what an admin can switch on, each with all that is known of it in one place."""

from __future__ import annotations

from collections.abc import Iterator

from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide import engine, next_change
from ..decide.rules import Rules
from ..decide.turns import Watch, unwatched
from ..policies.contract import Ordering
from . import (
    leases,
    migrate,
    profile,
    resize,
    rightsize,
    share,
    steer,
    stop,
)
from .contract import Power
from .guests import guests

POWERS: tuple[Power, ...] = (
    profile,
    share,
    leases,
    migrate,
    steer,
    rightsize,
    resize,
    stop,
)
"""All powers, in the order of their turns: each knows what those before it ask of jobs."""


def decide(view: View, ordering: Ordering, rules: Rules, entering: Watch = unwatched) -> Plan:
    """Compute the plan with all powers, those of plug-ins last; see ``decide.engine.decide``."""
    return engine.decide(view, ordering, rules, (*POWERS, *guests(rules)), entering)


def next_change_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> float:
    """Return the time from which a decision may differ by time alone; see ``decide.next_change.next_change_s``."""
    return next_change.next_change_s(view, plan, ordering, rules, (*POWERS, *guests(rules)))


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield the sentences of all powers about a job."""
    for power in POWERS:
        yield from power.words(view, plan, rules, job_id)
