"""The queue under the other order, beside the cycles: what ours changes, or would change, of each account's waits."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from ..clock import Clock, Timer
from ..cluster.columns import FloatArray
from ..cluster.plan import Plan
from ..cluster.records.hours import HOUR_S
from ..cluster.state import View
from ..config.service_settings import PredictSettings
from ..cycle import CycleReport
from ..db.records.hours import Counted
from ..errors import SlurmschedError
from ..explain.freed_queue import Queue, as_it_is
from ..explain.other_queue import Difference, OtherQueue, in_other_order, other_order, place_words
from ..report.hour_names import REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S, named
from .cycle_follower import CycleFollower

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
        self._player, self._add_hours, self._clock = player, add_hours, clock
        self._other, self._mode = OtherQueue(), ""
        self._sums: dict[Counted, float] = defaultdict(float)
        self._wait = Timer(clock.monotonic)

    def place_words(self, view: View, row: int) -> str:
        """Say where a pending *row* would be by now by Slurm's own priorities alone; empty where it is not known."""
        return place_words(self._other.within(LONGEST_S, view.now_s), view, row) if self._mode == "act" else ""

    def _note(self, report: CycleReport) -> bool:
        return self._player is not None

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        report = self._report
        assert report is not None
        self.look(report.view, report.plan, report.mode)
        news, self._sums = self._sums, defaultdict(float)
        try:
            self._add_hours(news)
        except SlurmschedError:
            for counted, value in news.items():
                self._sums[counted] += value
            raise

    def look(self, view: View, plan: Plan, mode: str) -> None:
        """Add up what both orders differ by since the last look, and play them on; SlurmschedError where that fails."""
        player = self._player
        assert player is not None
        if mode != self._mode:
            self._other, self._mode = OtherQueue(), mode
        ours = player.in_force(mode)
        queue = other_order(view, plan, in_force=ours)
        alike = same_order(view, queue)
        other, differences, began = self._other.within(LONGEST_S, view.now_s).seen(
            view, queue.view.pending.priority, newcomers=ours and not alike
        )
        if alike and other.same:
            self._other = other.settled()
        else:
            as_is, wanted = as_it_is(player.order(view, plan, mode)), in_other_order(queue, other)
            self._other = OtherQueue()  # where a play fails, the replay begins anew
            self._other, more = other.played(as_is, player.starts(as_is), wanted, player.starts(wanted), EVERY_S)
            differences += more
        self._count(view.now_s, mode, 1.0 if ours else -1.0, differences, began)

    def _count(
        self, now_s: float, mode: str, sign: float, differences: Sequence[Difference], began: Sequence[str]
    ) -> None:
        hour_s = math.floor(now_s / HOUR_S) * HOUR_S
        for account in began:
            self._sums[Counted(hour_s, named(REPLAY_JOBS, mode), account or NO_ACCOUNT, "")] += 1.0
        for one in differences:
            what = REPLAY_LONGER_S if sign * one.seconds > 0 else REPLAY_SHORTER_S
            self._sums[Counted(hour_s, named(what, mode), one.account or NO_ACCOUNT, "")] += abs(one.seconds)

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
