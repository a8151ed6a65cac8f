"""The result of a decision, as columns beside the pending jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .actions import Action, Refusal
from .columns import BoolArray, IntArray, Table
from .records.promises import NO_PROMISES, PromiseTable


class Standing(IntEnum):
    """The standing of a pending job: ordered by us, or the reason why not."""

    RANKED = 0
    OWNER_SAID_OFF = 1
    HELD_BY_USER = 2
    HELD_BY_ADMIN = 3
    PRIORITY_FIXED = 4
    NICE_SET = 5
    WAITS_FOR_DEPENDENCY = 6
    WAITS_FOR_BEGIN = 7
    LIMIT_BLOCKED = 8
    IN_RESERVATION = 9
    HETEROGENEOUS = 10
    OUT_OF_SCOPE = 11
    PARTITION_CLOSED = 12
    CANNOT_RUN = 13
    SHARES = 14
    OUTSIDE = 15


@dataclass(frozen=True, eq=False)
class Placing(Table):
    """The decision on each pending job; row *i* belongs to row *i* of ``View.pending``."""

    standing: IntArray  #: a Standing
    rank: IntArray  #: 0 runs soonest; -1 where not ranked
    starving: BoolArray  #: has waited longer than the configured bound
    runs: BoolArray  #: would run now, on the GPUs known to be free
    points: IntArray  #: SiteFactor it should have
    capped: BoolArray  #: would need more points than the admin allows


@dataclass(frozen=True)
class Plan:
    """The result of a decision: the placing of each job, the actions, and the actions that a rule prevented."""

    jobs: Placing
    actions: tuple[Action, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    promises: PromiseTable = NO_PROMISES  #: those of the view and of this decision
    solved: bool = False  #: promised jobs start as the solver planned, since other plans lose a promise
    shadow: tuple[int, ...] = ()  #: ids of the jobs that the ordering in shadow would run now, the first one first
