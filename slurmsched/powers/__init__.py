"""The powers: what an admin can switch on, each with all that is known of it in one place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide import engine, next_change
from ..decide.draft import Deciding
from ..decide.rules import Rules
from ..decide.turns import Watch, unwatched
from ..policies.contract import Ordering
from . import (
    deadlines,
    hold,
    leases,
    migrate,
    order,
    profile,
    resize,
    rightsize,
    share,
    steer,
    stop,
    suspend,
)
from .contract import HaltingPower, Power, PromisingPower
from .guests import guests

CHANGING: tuple[Power, ...] = (
    deadlines,
    profile,
    share,
    suspend,
    leases,
    migrate,
    steer,
    rightsize,
    resize,
    stop,
)
"""The powers that change jobs, in the order of their turns: each knows what those before it ask of jobs."""

HALTING: tuple[HaltingPower, ...] = (suspend,)
"""Those of them that stop running jobs in place and let them go on."""

PROMISING: tuple[PromisingPower, ...] = (deadlines,)
"""Those of them that promise jobs when they end."""

WAITING: tuple[Power, ...] = (order, hold)
"""The powers over who waits for whom, which come last: jobs on their way need no place."""

POWERS: tuple[Power, ...] = (*CHANGING, *WAITING)
"""All powers of slurmsched; those of plug-ins have their turns between the two kinds."""

CAN_WAIT = frozenset(power.name for power in POWERS if power.can_wait)
"""The powers that sit out cycles where they take long."""


def in_turn(rules: Rules) -> tuple[Deciding, ...]:
    """Return the powers that take part, in the order of their turns; ConfigError for one that is not there."""
    return (*CHANGING, *guests(rules), *WAITING)


def decide(view: View, ordering: Ordering, rules: Rules, entering: Watch = unwatched) -> Plan:
    """Compute the plan with all powers; see ``decide.engine.decide``."""
    return engine.decide(view, ordering, rules, in_turn(rules), entering)


def next_change_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> float:
    """Return the time from which a decision may differ by time alone; see ``decide.next_change.next_change_s``."""
    return next_change.next_change_s(view, plan, ordering, rules, in_turn(rules))


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield the sentences of all powers about a job."""
    for power in POWERS:
        yield from power.words(view, plan, rules, job_id)


def in_brief(view: View, plan: Plan, job_id: int) -> tuple[list[str], list[str]]:
    """Return sentences on what a pending job's owner has to expect of promises, and on what else could be asked for."""
    expected, offered = zip(*(power.in_brief(view, plan, job_id) for power in PROMISING), strict=True)
    return [*chain(*expected)], [*chain(*offered)]


def with_halts(view: View, rules: Rules) -> View:
    """Return *view* with the times for which powers will still stop running jobs; as it is where they stop none."""
    found = [halts for power in HALTING if (halts := power.halts(view, rules)) is not None]
    if not found:
        return view
    running = view.running.changed(
        halts_low_s=np.sum([one.low_s for one in found], axis=0),
        halts_s=np.sum([one.median_s for one in found], axis=0),
        halts_high_s=np.sum([one.high_s for one in found], axis=0),
    )
    return view.changed(running=running)


def halt_words(view: View, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield the sentences of all powers about the stops in force of a running job, or of another one for it."""
    for power in HALTING:
        yield from power.halt_words(view, rules, job_id)
