"""The queue as the other order would have it: Slurm's own where ours is in force, ours where it is not.

``OtherQueue`` carries on, from one look at the cluster to the next, which jobs would run by now in the other order
though they wait, and which run or have ended though they would wait. Each look plays the queue of the last one forward
twice, with the jobs that came since when they came: as it was, and in the other order with these jobs in place. Only
where both plays differ do the queues part, so that an error of the play itself is no difference between orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobState, JobTable, job_table
from ..cluster.plan import Plan, Standing
from ..cluster.records.report_rows import JobKey
from ..cluster.state import View
from ..decide.ordering.ranking import base_priority
from ..decide.phrasing import spell
from .freed_queue import FIRST, SOONER_S, FreedQueue, Queue, freed
from .queue_place import competing

_SAME_S = 1.0  #: a start within that of a look is one at the look

Starts = Mapping[JobKey, tuple[float, ...]]


@dataclass(frozen=True)
class Difference:
    """Seconds that a job waited since the last look and would not have in the other order; negative the other way."""

    account: str
    seconds: float


@dataclass(frozen=True)
class Later:
    """Jobs that started in reality and would start later in the other order; one entry for each, in all columns."""

    jobs: JobTable = field(default_factory=lambda: job_table(0))  #: as if they waited, with that order's priority
    forecast: Forecast = field(default_factory=lambda: no_forecast(0))
    started_s: FloatArray = field(default_factory=lambda: np.zeros(0))  #: in reality
    runtime_s: FloatArray = field(default_factory=lambda: np.zeros(0))  #: by what is known of the run
    would_s: FloatArray = field(default_factory=lambda: np.zeros(0))  #: start in the other order; NaN while it waits
    grown: FloatArray = field(default_factory=lambda: np.zeros(0))  #: points by age since it started in reality

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def priority(self) -> IntArray:
        """The priority that each job would have by now."""
        return np.maximum(np.rint(self.jobs.priority + self.grown).astype(np.int64), 1)

    @property
    def waiting(self) -> BoolArray:
        """Select the jobs that would wait by now."""
        return np.isnan(self.would_s)

    def take(self, rows: BoolArray) -> Later:
        """Return some of the jobs."""
        if rows.all():
            return self
        columns = self.started_s[rows], self.runtime_s[rows], self.would_s[rows], self.grown[rows]
        return Later(self.jobs.take(rows), self.forecast.take(rows), *columns)

    def joined(self, more: Later) -> Later:
        """Return the jobs of both."""
        if not len(self) or not len(more):
            return self if len(self) else more
        columns = zip(vars(self).values(), vars(more).values(), strict=True)
        jobs, forecast, *rest = columns
        arrays = [np.concatenate(pair) for pair in rest]
        return Later(jobs[0].joined(jobs[1]), forecast[0].joined(forecast[1]), *arrays)


@dataclass(frozen=True)
class Arrivals:
    """Jobs that came between two looks, as if all of them waited, with the priorities that they have or began with."""

    jobs: JobTable = field(default_factory=lambda: job_table(0))
    forecast: Forecast = field(default_factory=lambda: no_forecast(0))
    standing: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    points: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  #: that the plan gives


@dataclass(frozen=True)
class OtherQueue:
    """How the queue would be in the other order, as of the last look; the same as it is before the first one."""

    since_s: float = np.nan  #: Unix time of the first look
    sooner: FreedQueue = field(default_factory=FreedQueue)
    later: Later = field(default_factory=Later)
    base: Mapping[JobKey, int] = field(default_factory=dict)  #: that order's priority of the pending jobs
    came: Mapping[JobKey, int] = field(default_factory=dict)  #: and of those that came since, as of the next look
    real: Starts = field(default_factory=dict)  #: the starts of pending jobs by the last play as it is
    other: Starts = field(default_factory=dict)  #: and in the other order

    @property
    def same(self) -> bool:
        """True if no job would be elsewhere."""
        return self.sooner.empty and not len(self.later)

    @property
    def at_s(self) -> float:
        """The time of the last look."""
        return self.sooner.at_s

    def settled(self) -> OtherQueue:
        """Return this queue after a look at which both orders are the same: whatever starts next starts in both."""
        return replace(self, real={}, other={}, came={})

    def with_arrivals(self, came: Arrivals) -> OtherQueue:
        """Return this queue with jobs that *came*, in this order."""
        return replace(self, came=keyed(came.jobs))

    def within(self, longest_s: float, now_s: float) -> OtherQueue:
        """Return this queue; a new one if the last look was longer ago than that, or lies ahead of *now_s*."""
        return self if 0 <= now_s - self.at_s <= longest_s else OtherQueue()

    def seen(self, view: View, priority: IntArray) -> tuple[OtherQueue, list[Difference], list[str]]:
        """Return this queue as of *view*, the differences since the last look, and the accounts of jobs that started.

        *priority* is that of the pending jobs in the other order.
        """
        sooner, waited = self.sooner.seen(view)
        first = not np.isfinite(self.at_s)
        began = [] if first else _began(view.running, self.sooner.known)
        base = dict(zip(_keys(view.pending), priority.tolist(), strict=True))
        drift = self.drift(base)
        later = self._kept(view, drift)
        differences = [Difference(one.account, one.seconds) for one in waited if one.seconds > 0]
        differences += list(self._behind(view.now_s))
        parted = self._parted(view, [row for row in began if _key(view.running, row) not in sooner.running], drift)
        found = replace(
            self,
            since_s=view.now_s if first else self.since_s,
            sooner=sooner,
            later=later.joined(parted),
            base=base,
            came={},
        )
        would_s = np.fmin(parted.would_s, view.now_s)
        differences += [
            Difference(account, seconds)
            for account, seconds in zip(parted.jobs.account, (parted.started_s - would_s).tolist(), strict=True)
        ]
        return found, differences, [view.running.account[row] for row in began]

    def played(
        self, as_is: Queue, as_is_s: FloatArray, other: Queue, other_s: FloatArray, every_s: float
    ) -> tuple[OtherQueue, list[Difference]]:
        """Return this queue with what starts in it in *every_s* from the last look on, and differences of running jobs.

        *other* is what ``in_other_order`` returns.
        """
        now_s, many = other.view.now_s, len(other.row) - len(self.later)
        queue, starts_s = _first_rows(other, many), other_s[:many]
        sooner = self.sooner.with_starts(queue, starts_s, as_is, as_is_s, every_s)
        later, its_s = self.later, other_s[many:]
        starts = later.waiting & (its_s <= now_s + every_s)
        would_s = np.where(starts, np.maximum(its_s, now_s), later.would_s)
        lacks_s = np.where(later.waiting, 0.0, np.fmin(its_s, now_s + every_s) - now_s)  # others have its GPUs so long
        lacks_s = np.where(lacks_s > _SAME_S, lacks_s, 0.0)
        would_s = would_s + lacks_s
        differences = [
            Difference(later.jobs.account[row], -float(lacks_s[row])) for row in np.flatnonzero(lacks_s).tolist()
        ]
        kept = replace(later, would_s=would_s).take(~(later.waiting & np.isnan(its_s)))
        real = _starts(as_is, as_is_s)
        return replace(self, sooner=sooner, later=kept, real=real, other=_starts(queue, starts_s)), differences

    def drift(self, base: Mapping[JobKey, int]) -> float:
        """Return by how much the priority of jobs that wait grew since the last look on average: their age.

        Slurm rounds priorities, and the age of a look may be less than a point. Means of the same jobs add up to
        what they grew in all, within a point; medians do not.
        """
        grown = [value - self.base[key] for key, value in base.items() if key in self.base]
        return float(np.mean(grown)) if grown else 0.0

    def _kept(self, view: View, drift: float) -> Later:
        """Return the later jobs as far as they would not have ended by now, with what is known of their runs."""
        later = self.later
        if not len(later):
            return later
        running, waits = _rows(view.running), set(_keys(view.pending))
        keys = _keys(later.jobs)
        at = np.array([running.get(key, -1) for key in keys], dtype=np.int64)
        runs = at >= 0
        runtime_s = np.minimum(later.runtime_s, np.maximum((self.at_s + view.now_s) / 2 - later.started_s, 1.0))
        runtime_s[runs] = view.this_s[at[runs]] + view.remaining.median_s[at[runs]]
        again = np.array([key in waits for key in keys], dtype=np.bool_)
        ended = later.would_s + runtime_s <= view.now_s
        grown = np.where(later.waiting, later.grown + drift, later.grown)
        return replace(later, grown=grown, runtime_s=runtime_s).take(~again & ~ended)

    def _behind(self, now_s: float) -> list[Difference]:
        """Return the waits since the last look of jobs that run or have ended and would have waited."""
        later = self.later
        until_s = np.where(later.waiting, now_s, np.minimum(later.would_s, now_s))
        span_s = until_s - np.maximum(later.started_s, self.at_s)
        return [Difference(later.jobs.account[row], -float(span_s[row])) for row in np.flatnonzero(span_s > 0).tolist()]

    def _parted(self, view: View, began: Sequence[int], drift: float) -> Later:
        """Return those of the running rows that *began* that the last plays say would start later."""
        running, taken = view.running, dict[JobKey, int]()
        base: dict[JobKey, float] = {**self.came, **{key: value + drift for key, value in self.base.items()}}
        rows: list[int] = []
        would_s: list[float] = []
        priority: list[float] = []
        for row in sorted(began, key=lambda row: running.started_s[row]):
            key = _key(running, row)
            array = int(running.array_job_id[row])
            owner = (array, key[1]) if key not in base and array > 0 else key
            if owner not in base:
                continue
            number = taken[owner] = taken.get(owner, -1) + 1
            ahead = len(self.sooner.waiting.get(owner, ()))
            real_s, other_s = (
                _at(one.get(owner, ()), at) for one, at in ((self.real, number + ahead), (self.other, number))
            )
            if other_s > max(real_s, float(running.started_s[row])) + SOONER_S:
                would = other_s if other_s <= view.now_s else np.nan
                rows, would_s, priority = [*rows, row], [*would_s, would], [*priority, base[owner]]
        return _later(view, np.array(rows, dtype=np.int64), np.array(would_s), np.array(priority))


def other_order(view: View, plan: Plan, *, in_force: bool) -> Queue:
    """Return the queue in the order that is not in force: Slurm's own where ours is *in_force*, else ours.

    Slurm's has no points, and no holds or begin times of ours.
    """
    rows = np.arange(len(view.pending))
    pending = _reordered(view.pending, plan.jobs.points, in_force=in_force)
    nobody = np.full(len(rows), -1, dtype=np.int64)
    return Queue(replace(view, pending=pending), nobody, _inside(plan.jobs.standing), None, rows, nobody)


def _reordered(jobs: JobTable, points: IntArray, *, in_force: bool) -> JobTable:
    priority = base_priority(jobs) + (0 if in_force else points)
    own_s = np.where(np.isfinite(jobs.waiting_since_s), jobs.waiting_since_s, jobs.eligible_s)
    return jobs.changed(
        priority=np.where(jobs.priority > 0, np.maximum(priority, 1), 0),
        site_points=np.zeros(len(jobs), dtype=np.int64),
        eligible_s=own_s if in_force else jobs.eligible_s,
    )


def _inside(standing: IntArray) -> IntArray:
    return np.where(standing == Standing.OUTSIDE, int(Standing.RANKED), standing)


def in_other_order(queue: Queue, other: OtherQueue) -> Queue:
    """Return the *queue* of ``other_order`` as it would be by now: jobs that would run first, later ones at the end."""
    later, now_s = other.later, queue.view.now_s
    made = freed(_without(queue, later), (), other.sooner)
    if not len(later):
        return made
    runs = ~later.waiting
    ran_s = np.where(runs, now_s - later.would_s, 0.0)
    left_s = np.maximum(later.runtime_s - ran_s, 1.0)
    jobs = later.jobs.changed(
        priority=np.where(runs, FIRST + later.jobs.gpus, later.priority),
        time_limit_s=np.maximum(later.jobs.time_limit_s - ran_s, 1.0),
    )
    forecast = replace(later.forecast, runtime_s=left_s, low_s=left_s, high_s=left_s)
    return _joined(made, len(queue.row), jobs, forecast, np.full(len(later), int(Standing.RANKED)))


def arrivals(before: View, view: View, plan: Plan, *, in_force: bool) -> Arrivals:
    """Return the jobs of *view* that were not there *before*; *plan* is that of *view*.

    Where our order is not *in_force* those that run by now are left out, and start in both orders: which points they
    would have had is not known.
    """
    known = set(_keys(before.pending)) | set(_keys(before.running))
    pending, running = view.pending, view.running
    waits = np.array([row for row, key in enumerate(_keys(pending)) if key not in known], dtype=np.int64)
    owners = zip(running.array_job_id.tolist(), _keys(running), strict=True)
    new = [in_force and key not in known and (array, key[1]) not in known for array, key in owners]
    runs = np.flatnonzero(np.array(new, dtype=np.bool_))
    points = np.concatenate([plan.jobs.points[waits], running.site_points[runs]])
    return Arrivals(
        pending.take(waits).joined(_as_if_waiting(running.take(runs))),
        view.forecast.take(waits).joined(view.forecast_running.take(runs)),
        np.concatenate([plan.jobs.standing[waits], np.full(len(runs), int(Standing.RANKED))]),
        points,
    )


def with_arrivals(queue: Queue, came: Arrivals, *, grown: float) -> Queue:
    """Return *queue* with jobs that *came* after it, with less priority by what the others have *grown* since then."""
    priority = np.where(came.jobs.priority > 0, np.maximum(came.jobs.priority - round(grown), 1), 0)
    return _joined(queue, len(queue.row), came.jobs.changed(priority=priority), came.forecast, came.standing)


def in_order(came: Arrivals, *, in_force: bool) -> Arrivals:
    """Return the jobs that *came* in the order that is not in force, as ``other_order`` has them."""
    jobs = came.jobs
    return replace(came, jobs=_reordered(jobs, came.points, in_force=in_force), standing=_inside(came.standing))


def keyed(jobs: JobTable) -> dict[JobKey, int]:
    """Return the priority of each job."""
    return dict(zip(_keys(jobs), jobs.priority.tolist(), strict=True))


def place_words(other: OtherQueue, view: View, row: int) -> str:
    """Say where a pending *row* would be by now under Slurm's priorities alone, as the queue was played forward.

    Empty before the first look.
    """
    jobs, later = view.pending, other.later
    if not np.isfinite(other.since_s):
        return ""
    head = f"Played forward by Slurm's own priorities alone for the last {spell(view.now_s - other.since_s)}, it would"
    ran_s = {key: view.now_s - would[0].start_s for key, would in other.sooner.waiting.items()}
    keys = _keys(jobs)
    if ran_s.get(keys[row], -1.0) >= 0:
        return f"{head} run by now, since {spell(ran_s[keys[row]])}"
    waits = np.array([not ran_s.get(key, -1.0) >= 0 for key in keys], dtype=np.bool_)
    still = later.jobs.changed(priority=later.priority).take(later.waiting | (later.would_s > view.now_s))
    table = jobs.changed(priority=base_priority(jobs), site_points=np.zeros(len(jobs), dtype=np.int64)).take(waits)
    both = replace(view, pending=table.joined(still))
    at = int(np.flatnonzero(np.flatnonzero(waits) == row)[0])
    rows = np.flatnonzero(competing(both, at)[0])
    there = both.pending.take(rows)
    line = rows[np.lexsort((there.job_id, -there.priority, -both.tiers[rows]))]
    return f"{head} stand in place {int(np.flatnonzero(line == at)[0]) + 1} of {len(rows)}"


def started_words(other: OtherQueue, view: View, row: int) -> str:
    """Say when a running *row* would have started under Slurm's priorities alone, as the queue was played forward.

    Empty where it started before the first look.
    """
    key, started_s = _key(view.running, row), float(view.running.started_s[row])
    if not (np.isfinite(other.since_s) and started_s >= other.since_s):
        return ""
    head = "Played forward by Slurm's own priorities alone, it would"
    if key in other.sooner.running:
        return f"{head} have started {spell(started_s - other.sooner.running[key])} earlier."
    at = _rows(other.later.jobs).get(key)
    if at is None:
        return f"{head} have started at about the same time."
    would_s = float(other.later.would_s[at])
    if would_s != would_s:
        return f"{head} still wait, after {spell(view.now_s - started_s)}."
    return f"{head} have started {spell(would_s - started_s)} later."


def _later(view: View, rows: IntArray, would_s: FloatArray, priority: FloatArray) -> Later:
    """Return running *rows* as jobs that wait in the other order, with its priority for them."""
    if not len(rows):
        return Later()
    some = view.running.take(rows)
    whole = np.maximum(np.floor(priority).astype(np.int64), 1)
    jobs = _as_if_waiting(some).changed(priority=whole, site_points=np.zeros(len(rows), dtype=np.int64))
    runtime_s = view.this_s[rows] + view.remaining.median_s[rows]
    return Later(jobs, view.forecast_running.take(rows), some.started_s, runtime_s, would_s, priority - whole)


def _as_if_waiting(running: JobTable) -> JobTable:
    many = len(running)
    nothing = Labels.of([""] * many)
    return running.changed(
        state=np.full(many, int(JobState.PENDING)),
        reason=Labels.of(["Priority"] * many),
        node_list=nothing,
        dependency=nothing,
        tasks=np.ones(many, dtype=np.int64),
        eligible_s=np.fmin(running.eligible_s, running.started_s),
        started_s=np.full(many, np.nan),
        ended_s=np.full(many, np.nan),
    )


def _joined(queue: Queue, first: int, jobs: JobTable, forecast: Forecast, standing: IntArray) -> Queue:
    """Return *queue* with more waiting jobs, whose rows count from *first*."""
    view, many, nobody = queue.view, len(jobs), np.full(len(jobs), -1, dtype=np.int64)
    until_s = queue.delayed_until_s
    return Queue(
        replace(view, pending=view.pending.joined(jobs), forecast=view.forecast.joined(forecast)),
        np.concatenate([queue.rank, nobody]),
        np.concatenate([queue.standing, standing]),
        None if until_s is None else np.concatenate([until_s, np.full(many, np.nan)]),
        np.concatenate([queue.row, first + np.arange(many)]),
        np.concatenate([queue.ahead, nobody]),
    )


def _without(queue: Queue, later: Later) -> Queue:
    """Return *queue* without the running jobs that would start later."""
    if not len(later):
        return queue
    gone, view = set(_keys(later.jobs)), queue.view
    stays = np.array([key not in gone for key in _keys(view.running)], dtype=np.bool_)
    if stays.all():
        return queue
    running, forecast = view.running.take(stays), view.forecast_running.take(stays)
    return replace(queue, view=replace(view, running=running, forecast_running=forecast))


def _first_rows(queue: Queue, many: int) -> Queue:
    view = queue.view
    some = replace(view, pending=view.pending.take(slice(0, many)), forecast=view.forecast.take(slice(0, many)))
    return Queue(some, queue.rank[:many], queue.standing[:many], None, queue.row[:many], queue.ahead[:many])


def _starts(queue: Queue, start_s: FloatArray) -> Starts:
    """Return the starts of jobs that would not run yet, sorted, by job."""
    found: dict[JobKey, list[float]] = {}
    jobs, keys = queue.view.pending, _keys(queue.view.pending)
    for at in np.flatnonzero((queue.ahead < 0) & np.isfinite(start_s[: len(jobs)])).tolist():
        found.setdefault(keys[at], []).append(float(start_s[at]))
    return {key: tuple(sorted(starts_s)) for key, starts_s in found.items()}


def _at(starts_s: Sequence[float], number: int) -> float:
    return starts_s[number] if number < len(starts_s) else np.nan


def _began(running: JobTable, known: frozenset[JobKey]) -> list[int]:
    return [row for row, key in enumerate(_keys(running)) if key not in known]


def _rows(jobs: JobTable) -> dict[JobKey, int]:
    return {key: row for row, key in enumerate(_keys(jobs))}


def _keys(jobs: JobTable) -> list[JobKey]:
    first = np.nan_to_num(jobs.first_submit_s).astype(np.int64)
    return list(zip(jobs.job_id.tolist(), first.tolist(), strict=True))


def _key(jobs: JobTable, row: int) -> JobKey:
    first_s = float(jobs.first_submit_s[row])
    return int(jobs.job_id[row]), int(first_s) if first_s == first_s else 0
