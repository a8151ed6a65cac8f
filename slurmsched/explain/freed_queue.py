"""The queue as it would be if GPUs that ran nothing had been free: what their holders cost others.

``FreedQueue`` carries on, from one look at the cluster to the next, which jobs would have started on these GPUs, and
when. Each look plays the queue forward twice: as it is, and without the idle GPUs and with these jobs in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.records.report_rows import JobKey
from ..cluster.state import View
from ..cluster.text.tres import slots_in

TASKS_MOST = 32  #: waiting tasks of an array that are played one by one
SOONER_S = 60.0  #: a job would have started earlier where the difference is more than that
FIRST = 2**31  #: the priority of jobs that would run by now, to which their GPUs are added

_PENDING_SPANS = ("runtime_s", "low_s", "high_s")


@dataclass(frozen=True)
class IdleHold:
    """GPUs that a running job holds and that no process uses."""

    job_id: int
    user: str
    account: str
    partition: str
    gpus: int
    since_s: float  #: Unix time from which no process has used any of these


@dataclass(frozen=True)
class Waited:
    """Seconds that a job waited since the last look though it would have run, had idle GPUs been free."""

    job_id: int
    account: str
    user: str
    gpus: int
    seconds: float
    first: bool  #: the first time for this job


class Would(NamedTuple):
    """A job that would have started, had idle GPUs been free."""

    start_s: float  #: Unix time, later by the time for which others had its GPUs in the meantime
    counts_s: float  #: from which its wait counts


@dataclass(frozen=True)
class Queue:
    """Jobs to play forward: a view, with what the play needs to know of each pending row."""

    view: View
    rank: IntArray
    standing: IntArray
    delayed_until_s: FloatArray | None
    row: IntArray  #: of the pending jobs that were observed
    ahead: IntArray  #: which of the jobs of its row that would run by now; -1 for others


@dataclass(frozen=True)
class FreedQueue:
    """Which jobs would have started, had idle GPUs been free, and when (Unix time); arrays by their tasks."""

    at_s: float = -np.inf
    waiting: Mapping[JobKey, tuple[Would, ...]] = field(default_factory=dict)  #: that wait in reality, oldest first
    running: Mapping[JobKey, float] = field(default_factory=dict)  #: that run by now
    known: frozenset[JobKey] = frozenset()  #: jobs that ran at the last look

    @property
    def empty(self) -> bool:
        """True if the queue would be as it is."""
        return not self.waiting and not self.running

    @property
    def many(self) -> int:
        """The number of jobs and tasks that wait and would run by now."""
        return sum(map(len, self.waiting.values()))

    def within(self, longest_s: float, now_s: float) -> FreedQueue:
        """Return this queue; one without jobs if the last look was longer ago than that, or lies ahead of *now_s*."""
        return self if 0 <= now_s - self.at_s <= longest_s else FreedQueue(known=self.known)

    def seen(self, view: View) -> tuple[FreedQueue, list[Waited]]:
        """Return this queue as of *view*, and what its jobs waited since the last look."""
        pending, running = _rows(view.pending), _rows(view.running)
        began: dict[JobKey, list[int]] = {}
        for key, row in running.items():
            if key not in self.known:
                array = int(view.running.array_job_id[row])
                owner = (array, key[1]) if key not in self.waiting and array > 0 else key
                began.setdefault(owner, []).append(row)
        waited: list[Waited] = []
        waiting: dict[JobKey, tuple[Would, ...]] = {}
        ran = {key: start_s for key, start_s in self.running.items() if key in running}
        for key, starts_s in self.waiting.items():
            left = list(starts_s)
            for row in sorted(began.get(key, ()), key=lambda row: view.running.started_s[row]):
                if left:
                    one = left.pop(0)
                    ran[_key(view.running, row)] = one.start_s
                    waited += self._waited(view.running, row, [one], float(view.running.started_s[row]))
            if left and key in pending:
                row = pending[key]
                waiting[key] = tuple(left[: int(view.pending.tasks[row])])
                waited += self._waited(view.pending, row, waiting[key], view.now_s)
        return FreedQueue(view.now_s, waiting, ran, frozenset(running)), waited

    def with_starts(
        self, queue: Queue, start_s: FloatArray, as_is: Queue, as_is_s: FloatArray, every_s: float
    ) -> FreedQueue:
        """Return this queue with the jobs of *queue* that start before the next look, in *every_s*, and not *as_is*."""
        now_s, until_s = queue.view.now_s, queue.view.now_s + every_s
        free = _starts(queue, start_s, until_s)
        real = _starts(as_is, as_is_s, np.inf)
        waiting = self._put_off(queue, start_s, until_s)
        for row, starts_s in free.items():
            key = _key(queue.view.pending, int(np.flatnonzero(queue.row == row)[0]))
            would = waiting.get(key, ())
            does = real.get(row, [])[len(would) :]
            new = [
                Would(max(at_s, now_s), max(at_s, now_s))
                for number, at_s in enumerate(starts_s)
                if number >= len(does) or does[number] > at_s + SOONER_S
            ]
            if new:
                waiting[key] = (*would, *new)
        return replace(self, waiting=waiting)

    def _put_off(self, queue: Queue, start_s: FloatArray, until_s: float) -> dict[JobKey, tuple[Would, ...]]:
        """Return the jobs that would run, those later whose GPUs jobs have that started in reality, where they lack."""
        now_s, waiting = queue.view.now_s, dict(self.waiting)
        for at in np.flatnonzero(queue.ahead >= 0).tolist():
            again_s = min(start_s[at], until_s) if start_s[at] == start_s[at] else until_s
            if again_s > now_s + 1.0:
                key, number = _key(queue.view.pending, at), int(queue.ahead[at])
                jobs = list(waiting[key])
                jobs[number] = Would(jobs[number].start_s + again_s - now_s, again_s)
                waiting[key] = tuple(jobs)
        return waiting

    def _waited(self, jobs: JobTable, row: int, many: Sequence[Would], until_s: float) -> Iterator[Waited]:
        for one in many:
            yield Waited(
                int(jobs.job_id[row]),
                jobs.account[row],
                jobs.user[row],
                int(jobs.gpus[row]),
                max(0.0, until_s - max(one.counts_s, self.at_s)),
                one.start_s == one.counts_s and one.start_s >= self.at_s,
            )


def as_it_is(queue: Queue) -> Queue:
    """Return *queue* with the waiting tasks of arrays one by one, as far as they are played so."""
    return _split(queue, {}, {})


def freed(queue: Queue, holds: Sequence[IdleHold], would: FreedQueue) -> Queue:
    """Return *queue* without the idle GPUs of *holds*, and with the jobs that *would* have started as they would be."""
    view = queue.view
    return _split(
        replace(queue, view=_without_idle(_earlier(view, would.running), holds)), would.waiting, _rows(view.pending)
    )


def _rows(jobs: JobTable) -> dict[JobKey, int]:
    return {_key(jobs, row): row for row in range(len(jobs))}


def _key(jobs: JobTable, row: int) -> JobKey:
    first_s = float(jobs.first_submit_s[row])
    return int(jobs.job_id[row]), int(first_s) if first_s == first_s else 0


def _starts(queue: Queue, start_s: FloatArray, until_s: float) -> dict[int, list[float]]:
    """Return the starts until *until_s* of the jobs that would not run yet, sorted, by their observed row."""
    found: dict[int, list[float]] = {}
    for at in np.flatnonzero((queue.ahead < 0) & (start_s[: len(queue.row)] <= until_s)).tolist():
        found.setdefault(int(queue.row[at]), []).append(float(start_s[at]))
    return {row: sorted(starts_s) for row, starts_s in found.items()}


def _without_idle(view: View, holds: Sequence[IdleHold]) -> View:
    """Return *view* without the GPUs of *holds*; a job all of whose GPUs are idle gives its CPUs and memory back too.

    One that shares its GPUs keeps them: others run there.
    """
    jobs, idle = view.running, {hold.job_id: hold.gpus for hold in holds}
    alone = jobs.per_node.map([not slots_in(text) for text in jobs.per_node.names], np.bool_)
    most = np.array([idle.get(job, 0) for job in jobs.job_id.tolist()], dtype=np.int64)
    most = np.where(alone, np.minimum(most, jobs.gpus), 0)
    if not most.any():
        return view
    left = jobs.gpus - most
    share = np.divide(left, jobs.gpus, out=np.ones(len(jobs)), where=jobs.gpus > 0)
    smaller = jobs.changed(
        gpus=left,
        cpus=np.maximum(np.ceil(jobs.cpus * share).astype(np.int64), 1),
        memory_mib=jobs.memory_mib * share,
        exclusive=jobs.exclusive & (most == 0),
    )
    return _only(replace(view, running=smaller), (left > 0) | (most == 0))


def _earlier(view: View, running: Mapping[JobKey, float]) -> View:
    """Return *view* with the running jobs that would have started earlier as far as they would be; some have ended."""
    if not running:
        return view
    jobs = view.running
    started_s, stays = jobs.started_s.copy(), np.ones(len(jobs), dtype=np.bool_)
    for key, row in _rows(jobs).items():
        if key in running and started_s[row] > running[key]:
            stays[row] = view.remaining.median_s[row] > started_s[row] - running[key]
            started_s[row] = running[key]
    return _only(replace(view, running=jobs.changed(started_s=started_s)), stays)


def _only(view: View, rows: BoolArray) -> View:
    if rows.all():
        return view
    return replace(view, running=view.running.take(rows), forecast_running=view.forecast_running.take(rows))


def _split(queue: Queue, waiting: Mapping[JobKey, tuple[Would, ...]], rows: Mapping[JobKey, int]) -> Queue:
    """Return *queue* with jobs of *waiting* as they would run by now, or gone, and arrays task by task.

    Jobs that would run come first and need what is left of their forecast runtime.
    """
    view, now_s = queue.view, queue.view.now_s
    jobs, runtime_s = view.pending, view.forecast.runtime_s
    would = {rows[key]: many for key, many in waiting.items() if key in rows}
    row: list[int] = []
    tasks: list[int] = []
    ran_s: list[float] = []
    which: list[int] = []
    for at, many in enumerate(jobs.tasks.tolist()):
        ghosts = would.get(at, ())
        going = [number for number, one in enumerate(ghosts) if not now_s - one.start_s >= runtime_s[at]]
        rest = many - len(ghosts)
        single = min(rest, TASKS_MOST)
        others = single + (rest > single)
        row += [at] * (len(going) + others)
        tasks += [1] * (len(going) + single) + ([rest - single] if rest > single else [])
        ran_s += [now_s - ghosts[number].start_s for number in going] + [0.0] * others
        which += going + [-1] * others
    at_, spent_s = np.array(row, dtype=np.int64), np.array(ran_s, dtype=np.float64)
    ahead = np.array(which, dtype=np.int64) >= 0
    forecast = view.forecast.take(at_)
    spans = {
        name: np.where(ahead, np.maximum(getattr(forecast, name) - spent_s, 1.0), getattr(forecast, name))
        for name in _PENDING_SPANS
    }
    some = jobs.take(at_)
    pending = some.changed(
        tasks=np.array(tasks, dtype=np.int64),
        priority=np.where(ahead, FIRST + some.gpus, some.priority),  # the largest first: they fit beside small ones
        eligible_s=np.where(ahead, np.fmin(some.eligible_s, now_s), some.eligible_s),
        time_limit_s=np.maximum(some.time_limit_s - spent_s, 1.0),  # backfill plans by the limits
    )
    until_s = queue.delayed_until_s
    return Queue(
        replace(view, pending=pending, forecast=replace(forecast, **spans)),
        np.where(ahead, -1, queue.rank[at_]),
        queue.standing[at_],
        None if until_s is None else np.where(ahead, np.nan, until_s[at_]),
        queue.row[at_],
        np.array(which, dtype=np.int64),
    )
