"""The price of idle GPUs, beside the cycles: who waits for GPUs that run nothing, and how long."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from ...clock import Clock, Timer
from ...cluster.columns import FloatArray
from ...cluster.plan import Plan
from ...cluster.records.hours import HOUR_S
from ...cluster.records.profiles import NodeProfile
from ...cluster.state import View
from ...config.service_settings import PredictSettings
from ...cycle import CycleReport
from ...db.records.hours import Counted
from ...db.store import Store
from ...errors import SlurmschedError
from ...explain.freed_queue import FreedQueue, IdleHold, Queue, Waited, as_it_is, freed
from ...report.hour_names import IDLE_HELD_S, IDLE_JOBS, IDLE_WAIT_GPU_S, IDLE_WAIT_S
from ..cycle_follower import CycleFollower
from ..unsent_sums import UnsentSums
from .idle_book import IdleBook
from .idle_gpus import Delayed, IdleGpus

logger = logging.getLogger(__name__)

EVERY_S = 300.0  #: between two looks at the queue while GPUs are idle
LONGEST_S = 900.0  #: of one look; what was longer is not counted: the daemon did not run
SHOWN = 20  #: jobs that are named
REMEMBERED_S = 40 * 86_400.0  #: how old what nodes said may be after a start


class Played(Protocol):
    """The play-forward in the order in force."""

    def order(self, view: View, plan: Plan, mode: str) -> Queue:
        """Return the jobs of *view* as they would be played forward."""
        ...

    def starts(self, queue: Queue) -> FloatArray:
        """Return when each pending job of *queue* starts; NaN where it is not known. SlurmschedError where it fails."""
        ...

    def close(self) -> None:
        """End a play that is under way."""
        ...


class IdleService(CycleFollower):
    """Looks at the queue every EVERY_S while GPUs are idle or jobs would have run before, and adds up by the hour.

    *add_hours* keeps sums; *published* is called after each cycle with the number of idle GPUs, and after each look
    with the jobs that would run and the seconds that jobs waited. Without a *player* only holders are known.
    """

    leader_only = True

    def __init__(
        self,
        book: IdleBook,
        player: Played | None,
        add_hours: Callable[[Mapping[Counted, float]], None],
        clock: Clock,
        published: Callable[[int, int, float], None] = lambda gpus, waiting, waited_s: None,
    ) -> None:
        super().__init__("idle")
        self._book, self._player, self._sums = book, player, UnsentSums(add_hours)
        self._clock, self._published = clock, published
        self._would = FreedQueue()
        self._holds: list[IdleHold] = []
        self._held_at_s = math.nan
        self._latest = IdleGpus()
        self._wait = Timer(clock.monotonic)

    def latest(self) -> IdleGpus:
        """Return the idle GPUs of the last cycle, with what the last look found."""
        latest, holds = self._latest, self._holds
        return replace(latest, holds=holds, delayed=latest.delayed if holds else ())

    def _note(self, report: CycleReport) -> bool:
        self._holds = self._book.holds(report.view.running)
        self._publish(self._holds, 0.0)
        return True

    def _due(self) -> bool:
        return self._wait.due and bool(self._holds or self._sums or not self._would.empty)

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        with self._news:
            report, holds = self._report, self._holds
        assert report is not None
        self.look(report.view, report.plan, report.mode, holds)
        if self._sums:
            self._sums.send()

    def look(self, view: View, plan: Plan, mode: str, holds: Sequence[IdleHold]) -> None:
        """Add up what jobs waited since the last look, and find who would start; SlurmschedError where that fails."""
        self._would, waited = self._would.within(LONGEST_S, view.now_s).seen(view)
        self._count(view.now_s, waited, holds)
        gpu_hours = self._latest.waited_gpu_hours + sum(one.seconds * one.gpus for one in waited) / HOUR_S
        self._latest = replace(self._latest, holds=holds, waiting=self._would.many, waited_gpu_hours=gpu_hours)
        self._publish(holds, sum(one.seconds for one in waited))
        if self._player is None:
            return
        queue = self._player.order(view, plan, mode)
        as_is = as_it_is(queue)
        free = freed(queue, holds, self._would)
        as_is_s, free_s = self._player.starts(as_is), self._player.starts(free)
        self._would = self._would.with_starts(free, free_s, as_is, as_is_s, EVERY_S)
        delayed = _delayed(as_is, as_is_s, free, free_s)
        self._latest = IdleGpus(holds, self._would.many, gpu_hours, delayed)
        self._publish(holds, 0.0)

    def _publish(self, holds: Sequence[IdleHold], waited_s: float) -> None:
        self._published(sum(hold.gpus for hold in holds), self._latest.waiting, waited_s)

    def _count(self, now_s: float, waited: Sequence[Waited], holds: Sequence[IdleHold]) -> None:
        for one in waited:
            self._add(now_s, IDLE_WAIT_S, one.account, one.user, one.seconds)
            self._add(now_s, IDLE_WAIT_GPU_S, one.account, one.user, one.seconds * one.gpus)
            self._add(now_s, IDLE_JOBS, one.account, one.user, float(one.first))
        before_s, self._held_at_s = self._held_at_s, now_s
        for hold in holds:
            from_s = hold.since_s if not now_s - before_s <= LONGEST_S or hold.since_s > before_s else before_s
            lasted_s = min(max(now_s - from_s, 0.0), LONGEST_S)
            self._add(now_s, IDLE_HELD_S, hold.account, hold.user, lasted_s * hold.gpus)

    def _add(self, now_s: float, what: str, account: str, user: str, value: float) -> None:
        if value:
            self._sums.add(now_s, what, account, user, value)

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("what idle GPUs cost others is not known anew: %s", error)
        self._latest = replace(self._latest, delayed=(), trouble=str(error))

    def _abandon(self) -> None:
        if self._player is not None:
            self._player.close()


def _delayed(as_is: Queue, as_is_s: FloatArray, free: Queue, free_s: FloatArray) -> list[Delayed]:
    """Return the jobs whose first start would come soonest before the one that it has."""
    first = _first(as_is, as_is_s)
    sooner = {row: at_s for row, at_s in _first(free, free_s).items() if row in first}
    jobs, now_s = as_is.view.pending, as_is.view.now_s
    at = {int(row): place for place, row in reversed(list(enumerate(as_is.row.tolist())))}
    found = [
        Delayed(
            int(jobs.job_id[at[row]]),
            jobs.user[at[row]],
            jobs.account[at[row]],
            int(jobs.gpus[at[row]]),
            first[row],
            max(free_at_s, now_s),
        )
        for row, free_at_s in sooner.items()
        if first[row] - max(free_at_s, now_s) > 60.0
    ]
    found.sort(key=lambda one: (one.start_if_free_s - one.start_s, one.job_id))
    return found[:SHOWN]


def _first(queue: Queue, start_s: FloatArray) -> dict[int, float]:
    found: dict[int, float] = {}
    for row, at_s in zip(queue.row.tolist(), start_s[: len(queue.row)].tolist(), strict=True):
        if at_s == at_s:
            found[row] = min(at_s, found.get(row, np.inf))
    return found


@dataclass(frozen=True)
class IdleStore:
    """What the database knows of idle GPUs of one cluster."""

    store: Store
    cluster: str

    def earlier(self, since_s: float) -> Sequence[NodeProfile]:
        """Return what nodes said since then of GPUs that jobs held without a process."""
        return self.store.idle_nodes(self.cluster, since_s)

    def add_hours(self, news: Mapping[Counted, float]) -> None:
        """Add sums to those of their hours."""
        self.store.add_hours(self.cluster, news)


@dataclass(frozen=True)
class IdleGpusOfJobs:
    """The parts of a daemon that know idle GPUs."""

    book: IdleBook
    service: IdleService

    def latest(self) -> IdleGpus:
        """Return who holds idle GPUs, and who waits for them."""
        return self.service.latest()


def idle_gpus_of_jobs(
    settings: PredictSettings,
    player: Played,
    log: IdleStore,
    clock: Clock,
    published: Callable[[int, int, float], None],
) -> IdleGpusOfJobs:
    """Build these parts; without predictions holders are known, and not who waits for them."""
    book = IdleBook(lambda: log.earlier(clock.now() - REMEMBERED_S))
    plays = settings.enabled and find_spec("numba") is not None
    service = IdleService(book, player if plays else None, log.add_hours, clock, published)
    return IdleGpusOfJobs(book, service)
