"""What a decision wants, as columns beside the pending jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .actions import Action, Refusal
from .columns import BoolArray, IntArray, Table
from .records.promises import NO_PROMISES, PromiseTable


class Standing(IntEnum):
    """Whether we order a pending job, and if not, why it is left alone."""

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


@dataclass(frozen=True, eq=False)
class Placing(Table):
    """What is wanted of each pending job; row *i* belongs to row *i* of ``View.pending``."""

    standing: IntArray  #: a Standing
    rank: IntArray  #: 0 runs soonest; -1 where not ranked
    starving: BoolArray  #: waited longer than the promised bound
    runs: BoolArray  #: would run now, by the free GPUs we know of
    points: IntArray  #: SiteFactor it should have
    capped: BoolArray  #: wanted more points than the admin lets us give


@dataclass(frozen=True)
class Plan:
    """The result of deciding: what is wanted per job, the actions for it, and what a rule stood against."""

    jobs: Placing
    actions: tuple[Action, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    promises: PromiseTable = NO_PROMISES  #: of the view, and what this decision adds
