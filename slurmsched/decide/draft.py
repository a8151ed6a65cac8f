"""What a decision has settled before the powers have their turns, and the lanes in which their wishes line up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cached_property
from itertools import zip_longest
from typing import Protocol

import numpy as np

from ..cluster.actions import Action, job_of
from ..cluster.columns import BoolArray, IntArray
from ..cluster.plan import Placing, Plan
from ..cluster.state import View
from ..policies.contract import Ordering
from .deadlines.promises import Promised
from .deadlines.stops import Stops
from .excluded_nodes import kept_off
from .rules import Rules


class Lane(IntEnum):
    """What wishes are for; ``PRIORITY`` has their order."""

    GIVE_BACK = auto()  #: a job that a change of ours keeps from starting gets its own back
    SIZE = auto()  #: other numbers of GPUs
    RELEASE = auto()  #: begin times that nobody needs any more
    STOP = auto()  #: requests to stop
    END = auto()  #: jobs that have what they asked for
    MOVE = auto()  #: jobs on their way to shared GPUs or between partitions, and back
    LEND = auto()  #: nodes between partitions
    EXCLUDE = auto()  #: excluded nodes of pending jobs
    REQUEST = auto()  #: other CPUs and memory
    RANK = auto()  #: points
    HOLD = auto()  #: delays of jobs that block a promise
    ANSWER = auto()  #: answers to deadlines
    KEEP_OUT = auto()  #: delays of jobs that are not admitted
    START = auto()  #: starts, where plans happen as they are


PRIORITY: tuple[tuple[Lane, ...], ...] = (
    (Lane.GIVE_BACK,),  # a job waits for it that could run
    (Lane.SIZE,),  # before a release lets such a job start
    (Lane.RELEASE,),
    (Lane.STOP,),
    (Lane.END,),
    (Lane.MOVE,),
    (Lane.LEND,),
    (Lane.EXCLUDE, Lane.REQUEST, Lane.RANK),  # a burst of jobs needs as many of each
    (Lane.HOLD, Lane.ANSWER),  # holds are renewed in each cycle, and could use up all writes
    (Lane.KEEP_OUT,),
    (Lane.START,),
)
"""The one order of wishes, which counts where the budget does not reach for all; lanes of one row alternate."""

CHANGES = (Lane.SIZE, Lane.EXCLUDE, Lane.REQUEST)
"""The lanes of changes of what a job asks for: none while the job is on its way, or gets its own back."""


@dataclass
class Wishes:
    """The wishes of one decision by lane, each in the order in which they came."""

    _by_lane: dict[Lane, list[Action]] = field(default_factory=dict)

    def add(self, lane: Lane, wishes: Iterable[Action]) -> None:
        """Add *wishes* behind those in a lane."""
        self._by_lane.setdefault(lane, []).extend(wishes)

    def replace(self, lane: Lane, wishes: Iterable[Action]) -> None:
        """Let *wishes* stand in a lane in place of those that do."""
        self._by_lane[lane] = list(wishes)

    def of(self, lane: Lane) -> list[Action]:
        """Return the wishes in a lane."""
        return self._by_lane.get(lane, [])

    def in_order(self) -> list[Action]:
        """Return all wishes by their priority."""
        found: list[Action] = []
        for lanes in PRIORITY:
            some = [its for lane in lanes if (its := self._by_lane.get(lane))]
            if len(some) == 1:
                found += some[0]
            else:
                found += [wish for each in zip_longest(*some) for wish in each if wish is not None]
        return found


@dataclass(eq=False)
class Draft:
    """A decision before the powers have their turns, and the wishes of those that had theirs."""

    view: View
    ordering: Ordering
    rules: Rules
    standings: IntArray  #: by row of a pending job
    starving: BoolArray  #: the same
    ranked: IntArray  #: rows of pending jobs in their order
    due: BoolArray  #: those that must run now to keep a promise
    delayed: IntArray  #: rows of jobs that block a promise
    promised: Promised | None  #: None where nothing is promised
    stopping: Stops | None  #: what running jobs may be asked for promises, likewise
    wishes: Wishes = field(default_factory=Wishes)  #: those of the powers that had their turns
    kept: set[int] = field(default_factory=set)  #: rows of jobs whose begin time of ours stays
    placing: Placing = field(init=False)  #: the places, the points and the run set of the order

    @property
    def runs(self) -> BoolArray:
        """The pending jobs that would run now."""
        return self.placing.runs

    @cached_property
    def kept_off(self) -> Mapping[int, frozenset[str]]:
        """The nodes that pending jobs are kept off, by row."""
        return kept_off(self.view, self.rules.migration)

    @property
    def asked(self) -> set[int]:
        """The jobs that are asked to stop so far."""
        return set(map(job_of, self.wishes.of(Lane.STOP)))

    @property
    def held(self) -> IntArray:
        """The rows of jobs that are delayed for a promise."""
        return self.delayed if "hold" in self.rules.powers else self.delayed[:0]

    @property
    def undelayed(self) -> IntArray:
        """The rows of jobs in their order without those that block a promise."""
        return self.ranked[~np.isin(self.ranked, self.delayed)] if len(self.delayed) else self.ranked


class Deciding(Protocol):
    """What decide() asks of a power; ``powers.contract`` has all of it."""

    @property
    def name(self) -> str:
        """Its name in settings, in turns and in the times of a cycle."""
        ...

    def wishes(self, draft: Draft) -> Mapping[Lane, Sequence[Action]]:
        """Return its wishes by lane."""
        ...

    def changes_s(self, view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterable[float]:
        """Return the times from which its wishes may differ though no job came, started or ended."""
        ...
