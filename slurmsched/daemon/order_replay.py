"""The queue under the other order, beside the cycles: what ours changes, or would change, of each account's waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from ..clock import Clock, Timer
from ..cluster.columns import FloatArray
from ..cluster.plan import Plan
from ..cluster.state import View
from ..config.service_settings import PredictSettings
from ..cycle import CycleReport
from ..db.records.hours import Counted
from ..errors import SlurmschedError
from ..explain.freed_queue import Queue, as_it_is
from ..explain.other_queue import (
    Difference,
    OtherQueue,
    arrivals,
    in_order,
    in_other_order,
    keyed,
    other_order,
    place_words,
    started_words,
    with_arrivals,
)
from ..report.hour_names import REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S, named
from .cycle_follower import CycleFollower
from .unsent_sums import UnsentSums

logger = logging.getLogger(__name__)

EVERY_S = 300.0  #: between two looks at the queue
LONGEST_S = 900.0  #: of one look; after a longer one the replay begins anew: the daemon did not run
NO_ACCOUNT = "(none)"


class Played(Protocol):
    """The play-forward in the order in force."""

    def in_force(self, mode: str) -> bool:
        """Return True where our order is in force under *mode*."""
        ...

    def order(self, view: View, plan: Plan, mode: str) -> Queue:
        """Return the jobs of *view* as they would be played forward."""
        ...

    def starts(self, queue: Queue) -> FloatArray:
        """Return when each pending job of *queue* starts; NaN where it is not known. SlurmschedError where it fails."""
        ...

    def close(self) -> None:
        """End a play that is under way."""
        ...


class OrderReplay(CycleFollower):
    """Plays the queue forward in both orders every EVERY_S, and adds up by the hour what jobs wait more and less.

    *add_hours* keeps sums. Without a *player* nothing is replayed. Nothing is kept over a restart.
    """

    leader_only = True

    def __init__(
        self, player: Played | None, add_hours: Callable[[Mapping[Counted, float]], None], clock: Clock
    ) -> None:
        super().__init__("replay")
        self._player, self._sums = player, UnsentSums(add_hours)
        self._other, self._mode = OtherQueue(), ""
        self._last: tuple[View, Plan] | None = None
        self._wait = Timer(clock.monotonic)

    def place_words(self, view: View, row: int) -> str:
        """Say where a pending *row* would be by now by Slurm's own priorities alone; empty where it is not known."""
        return place_words(self._other.within(LONGEST_S, view.now_s), view, row) if self._mode == "act" else ""

    def started_words(self, view: View, row: int) -> str:
        """Say when a running *row* would have started by Slurm's own priorities alone; empty where not known."""
        return started_words(self._other.within(LONGEST_S, view.now_s), view, row) if self._mode == "act" else ""

    def _note(self, report: CycleReport) -> bool:
        return self._player is not None

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        report = self._report
        assert report is not None
        self.look(report.view, report.plan, report.mode)
        self._sums.send()

    def look(self, view: View, plan: Plan, mode: str) -> None:
        """Play what happened since the last look in both orders, and add up what they differ by.

        SlurmschedError where that fails; the replay then begins anew.
        """
        player = self._player
        assert player is not None
        if mode != self._mode:
            self._other, self._mode = OtherQueue(), mode
        ours, last = player.in_force(mode), self._last
        other, differences = self._other.within(LONGEST_S, view.now_s), list[Difference]()
        self._other, self._last = OtherQueue(), (view, plan)  # where a play fails, the replay begins anew
        queue = other_order(view, plan, in_force=ours)
        if last is not None and np.isfinite(other.at_s):
            other, differences = self._played(other, last, view, plan, queue)
        self._other, more, began = other.seen(view, queue.view.pending.priority)
        self._count(view.now_s, mode, 1.0 if ours else -1.0, [*differences, *more], began)

    def _played(
        self, other: OtherQueue, last: tuple[View, Plan], view: View, plan: Plan, queue: Queue
    ) -> tuple[OtherQueue, list[Difference]]:
        """Play the *last* queue on until that of *view*, whose *queue* in the other order is known."""
        player, (before, its_plan) = self._player, last
        assert player is not None
        ours = player.in_force(self._mode)
        came, grown = arrivals(before, view, plan, in_force=ours), other.drift(keyed(queue.view.pending))
        came_there = in_order(came, in_force=ours)
        there = with_arrivals(other_order(before, its_plan, in_force=ours), came_there, grown=grown)
        as_was = with_arrivals(player.order(before, its_plan, self._mode), came, grown=grown)
        if other.same and same_order(as_was.view, there):
            return other.settled(), []
        other = other.with_arrivals(came_there)
        as_is, wanted = as_it_is(as_was), in_other_order(there, other)
        return other.played(as_is, player.starts(as_is), wanted, player.starts(wanted), view.now_s - before.now_s)

    def _count(
        self, now_s: float, mode: str, sign: float, differences: Sequence[Difference], began: Sequence[str]
    ) -> None:
        for account in began:
            self._sums.add(now_s, named(REPLAY_JOBS, mode), account or NO_ACCOUNT, "", 1.0)
        for one in differences:
            what = REPLAY_LONGER_S if sign * one.seconds > 0 else REPLAY_SHORTER_S
            self._sums.add(now_s, named(what, mode), one.account or NO_ACCOUNT, "", abs(one.seconds))

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("the other order was not played forward: %s", error)

    def _abandon(self) -> None:
        if self._player is not None:
            self._player.close()


def same_order(view: View, queue: Queue) -> bool:
    """Return True if the *queue* of the other order is the one that Slurm has by the priorities of *view*."""
    jobs, other = view.pending, queue.view.pending
    return bool(
        np.array_equal(jobs.priority, other.priority)
        and np.array_equal(jobs.eligible_s, other.eligible_s, equal_nan=True)
    )


def order_replay(
    settings: PredictSettings, player: Played, add_hours: Callable[[Mapping[Counted, float]], None], clock: Clock
) -> OrderReplay:
    """Build this part; without predictions nothing is replayed."""
    plays = settings.enabled and find_spec("numba") is not None
    return OrderReplay(player if plays else None, add_hours, clock)
