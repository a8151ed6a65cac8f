"""Track jobs across observations: changes since the last one, and first submit times."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, among
from .events import Event, JobEnded, JobRequeued, JobStarted, JobSubmitted
from .job_record import EndedRun, Index, JobRecord, Phase, chose_hold, is_held, jobs_in, outcomes_of, units_in
from .jobs import JobState, JobTable, deadlines_from
from .nodes import NodeTable
from .records.outcomes import OutcomeTable
from .run_types import run_types
from .speed_texts import ran_further
from .state import ClusterState
from .text.comment import owner_request

#: Slurm's times are whole seconds and some of its programs round differently.
SAME_TIME_S = 1.0

BETWEEN_RUNS_S = 150.0
"""The time between runs that costs a job no place in line, once: Slurm lets a requeued one wait two minutes."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A begin time that we may have set for a job."""

    asked_s: float  #: when we last asked for one
    until_s: float  #: no later than this


NO_DELAYS: Mapping[int, Delay] = MappingProxyType({})


@dataclass(frozen=True)
class TrackedChanges:
    """The changes in one observation; *jobs* are the new or changed records by unit, None for those to delete."""

    state: ClusterState  #: the observation itself, with first submit times filled in
    events: tuple[Event, ...]
    ended: OutcomeTable
    jobs: dict[int, JobRecord | None]


class JobTracker:
    """The history of every job from submit to end, by comparison of observations; without clock or database.

    Slurm resets the submit time of a requeued job (its restart count grows); the first submit time is kept here. An
    id whose submit time moved while its restarts did not grow is a new job: Slurm has restarted its ids.
    The waiting tasks of an array are one unit. A task that starts becomes its own unit with the array's first submit
    time; a requeued task merges into the array's unit again, as in squeue.
    """

    def __init__(self, jobs: Iterable[JobRecord] = ()) -> None:
        self._jobs = {job.unit: job for job in jobs}
        self._index = Index.of(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def adopt(self, jobs: Iterable[JobRecord]) -> dict[int, JobRecord | None]:
        """Add *jobs* of an earlier process; own observations are newer. Return the records that this corrected."""
        changed: dict[int, JobRecord | None] = {}
        for old in jobs:
            mine = self._jobs.get(old.unit)
            if mine is None:
                self._jobs[old.unit] = old
            elif mine.restarts > old.restarts or _continues(old, mine):
                first_s = min(old.first_submit_s, mine.first_submit_s)
                longer = old if old.ran_s > mine.ran_s else mine
                mine = mine._replace(
                    first_submit_s=first_s,
                    ran_s=longer.ran_s,
                    ran_on=longer.ran_on,
                    waited_s=max(old.waited_s, mine.waited_s),
                    lost_s=max(old.lost_s, mine.lost_s),
                )
                changed[old.unit] = self._jobs[old.unit] = mine
        self._index = Index.of(self._jobs)
        return changed

    def missing(self, state: ClusterState) -> list[int]:
        """Return the unfinished jobs of earlier observations that this one lacks, lowest id first.

        Slurm shows an ended job for a while (MinJobAge): the read was incomplete, or Slurm has forgotten the job.
        """
        arrays = _arrays_begun(state)
        units = self._index.unit[(self._index.phase != Phase.ENDED) & self._index.lacks(_units(state))].tolist()
        missing = (self._jobs[unit].job_id for unit in units if unit > 0 or -unit not in arrays)
        return sorted(set(missing).difference(state.melted.tolist()))

    def update(
        self,
        state: ClusterState,
        now_s: float,
        delays: Mapping[int, Delay] = NO_DELAYS,
        forgotten: Collection[int] = (),
    ) -> TrackedChanges:
        """Process one observation of the cluster; unchanged jobs cost no Python step each.

        *delays* are the begin times that we may have set: a job delayed by them still counts as waiting. Of the
        ``missing`` jobs, those *forgotten* by Slurm have ended; the others stay unchanged.
        """
        page = _Page(self._jobs, self._index, now_s, delays, state.nodes)
        live = np.concatenate([units_in(state.pending), units_in(state.running)])
        page.meet(state.ended, Phase.ENDED, ~among(units_in(state.ended), live))
        page.meet(state.running, Phase.RUNNING)
        page.meet(state.pending, Phase.PENDING)
        page.miss(state, frozenset(forgotten))
        self._index = self._index.changed(page.changed)
        return TrackedChanges(self._dated(state, now_s), tuple(page.events), outcomes_of(page.runs), page.changed)

    def validate(self) -> None:
        """Raise AssertionError where the index is not that of the records, or a record contradicts itself."""
        for unit, job in self._jobs.items():
            assert job.unit == unit, f"the record of job {job.job_id} stands under unit {unit}"
            assert job.phase is not Phase.PENDING or math.isnan(job.started_s), (
                f"job {job.job_id} waits but has started"
            )
            assert job.delayed_s >= 0, f"job {job.job_id} was delayed by less than nothing"
            assert job.phase is Phase.PENDING or math.isnan(job.held_since_s), (
                f"job {job.job_id} is held but has started"
            )
        fresh = Index.of(self._jobs)
        for column in fields(Index):
            same = np.array_equal(getattr(self._index, column.name), getattr(fresh, column.name), equal_nan=True)
            assert same, f"the index of jobs differs from their records in {column.name}"

    def _dated(self, state: ClusterState, now_s: float) -> ClusterState:
        tables = (state.pending, state.running, state.ended)
        pending, running, ended = (self._dated_jobs(table, now_s) for table in tables)
        return replace(state, pending=pending, running=running, ended=ended)

    def _dated_jobs(self, table: JobTable, now_s: float) -> JobTable:
        if not len(table):
            return table
        at, found = self._index.find(units_in(table))
        if not len(self._index.unit):
            return table.changed(first_submit_s=table.submitted_s, deadline_s=deadlines_from(table, table.submitted_s))
        first_s = np.where(found, self._index.first_submit_s[at], table.submitted_s)
        since_s, waited_s = self._waits(at, found)
        came_s = np.where(found, self._came_s(at, waited_s, now_s), first_s)
        return table.changed(
            first_submit_s=first_s,
            deadline_s=deadlines_from(table, first_s),
            waiting_since_s=since_s,
            waited_s=waited_s,
            away_s=np.maximum(came_s - first_s, 0.0),
            delayed_s=np.where(found, self._index.delayed_s[at], 0.0),
            ran_s=_continued(table, np.where(found, self._index.ran_s[at], 0.0), now_s),
            ran_on=self._ran_on(table, at, found),
        )

    def _waits(self, at: IntArray, found: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns ``waiting_since_s`` and ``waited_s`` of the jobs *at* these rows of the index."""
        held = np.isfinite(self._index.held_since_s[at])
        since_s = np.where(held, np.inf, self._index.waiting_since_s[at])
        return np.where(found, since_s, np.nan), np.where(found, self._index.waited_s[at], 0.0)

    def _came_s(self, at: IntArray, waited_s: FloatArray, now_s: float) -> FloatArray:
        """Return when the jobs *at* these rows of the index would have come if they had waited or run ever since.

        What was before a hold that its owner chose counts for no place: who lets a job wait in line and holds it when
        its turn comes would have the turn later, when he needs it.
        """
        index = self._index
        since_s = np.where(np.isnan(index.waiting_since_s[at]), index.eligible_s[at], index.waiting_since_s[at])
        since_s = np.where(np.isfinite(index.held_since_s[at]) | ~np.isfinite(since_s), now_s, since_s)
        came_s = since_s - waited_s - index.ran_s[at] + index.lost_s[at]
        first_s, again = index.first_submit_s[at], (index.restarts[at] > 0) & (index.lost_s[at] == 0)
        return np.asarray(np.where(again, np.maximum(came_s - BETWEEN_RUNS_S, first_s), came_s))

    def _ran_on(self, table: JobTable, at: IntArray, found: BoolArray) -> Labels:
        """Return the column ``ran_on`` of *table*, whose rows are *at* these of the index where *found*."""
        rows = np.flatnonzero(found & (self._index.ran_s[at] > 0) & table.ckpt)
        if not len(rows):
            return table.ran_on
        texts = [""] * len(table)
        for row, unit in zip(rows.tolist(), self._index.unit[at[rows]].tolist(), strict=True):
            texts[row] = self._jobs[unit].ran_on
        return Labels.of(texts)


@dataclass
class _Page:
    """The comparison of one observation with the records."""

    jobs: dict[int, JobRecord]
    before: Index
    now_s: float
    delays: Mapping[int, Delay]
    nodes: NodeTable
    events: list[Event] = field(default_factory=list)
    runs: list[EndedRun] = field(default_factory=list)
    changed: dict[int, JobRecord | None] = field(default_factory=dict)

    def meet(self, table: JobTable, phase: Phase, rows: BoolArray | None = None) -> None:
        """Process the changed ones of *rows* of *table*."""
        if not len(table):
            return
        news = ~self.before.unchanged(table, phase)
        some = np.flatnonzero(news if rows is None else news & rows)
        if not len(some):
            return
        columns = table.state[some].tolist(), table.ended_s[some].tolist(), table.comment.take(some)
        extras = zip(*columns, run_types(table.take(some), self.nodes), strict=True)
        held = set(some[is_held(table)[some]].tolist()) if phase is Phase.PENDING else set()
        chosen = set(some[chose_hold(table)[some]].tolist()) if held else set()
        for row, job, (state, ended_s, comment, gpu_type) in zip(
            some.tolist(), jobs_in(table, some), extras, strict=True
        ):
            job = job._replace(gpu_type=gpu_type) if gpu_type else job
            job = job._replace(held_since_s=self.now_s) if row in held else job
            if state == JobState.COMPLETING and self._between_runs(job):
                continue
            if phase is Phase.ENDED:
                self._end(self._recognise(job, comment), JobState(state), ended_s)
            elif phase is Phase.RUNNING:
                self._run(self._recognise(job, comment), JobState(state))
            else:
                job = self._recognise(job, comment)._replace(phase=Phase.PENDING, started_s=math.nan)
                self._track(job._replace(lost_s=job.waited_s + job.ran_s) if row in chosen else job)

    def miss(self, state: ClusterState, forgotten: frozenset[int]) -> None:
        """Process the recorded jobs that the observation lacks."""
        gone = self.before.unit[self.before.lacks(_units(state))].tolist()
        if not gone:
            return
        arrays, melted = _arrays_begun(state), set(state.melted.tolist())
        for unit in gone:
            job = self.jobs[unit]
            if job.phase is Phase.ENDED or (unit < 0 and job.job_id in arrays):
                pass  # an array whose last tasks have started continues as those tasks
            elif job.job_id in melted:
                if job.phase is Phase.RUNNING:
                    self.runs.append(EndedRun(job, self.now_s, JobState.REQUEUED))
                    self.events.append(
                        JobRequeued(job.job_id, self.now_s, job.restarts + 1, first_submit_s=job.first_submit_s)
                    )
            elif job.job_id in forgotten:
                self._vanish(job)
            else:
                continue
            del self.jobs[unit]
            self.changed[unit] = None

    def _between_runs(self, job: JobRecord) -> bool:
        """Return True if *job*, which is COMPLETING, must be processed only after that.

        A requeued job gets the restart count of its next run at once, but its submit time only when the old run ends.
        """
        earlier = self.jobs.get(job.unit)
        return earlier is None or job.restarts > earlier.restarts

    def _recognise(self, job: JobRecord, comment: str) -> JobRecord:
        """Return *job* with its first submit time and last phase, after recording the events that it implies."""
        earlier = self.jobs.get(job.unit)
        if earlier is not None and job.unit > 0 and job.restarts > earlier.restarts:
            self._requeue(earlier, job)
            this_s = self._ran_until(earlier, job)
            return job._replace(
                first_submit_s=earlier.first_submit_s,
                delayed_s=earlier.delayed_s,
                lost_s=earlier.lost_s,
                waited_s=earlier.waited_s
                if earlier.phase is Phase.RUNNING
                else self._waited_until(earlier, job.submitted_s),
                ran_s=earlier.ran_s + this_s,
                ran_on=ran_further(earlier.ran_on, earlier.gpus, this_s),
            )
        if earlier is not None and _continues(earlier, job):
            same = self._held(earlier, self._waiting(earlier, job))
            same = same._replace(ran_s=earlier.ran_s, gpu_type=job.gpu_type or earlier.gpu_type)
            return same._replace(first_submit_s=earlier.first_submit_s, phase=earlier.phase, ran_on=earlier.ran_on)
        if earlier is not None and earlier.phase is not Phase.ENDED:
            self._vanish(earlier)
        first_s = job.submitted_s
        if job.restarts and job.array_job_id:  # a requeued task without a record since it merged into the array's unit
            first_s = min(first_s, self._array_submit_s.get(job.array_job_id, first_s))
        request = owner_request(comment)[0]
        self.events.append(JobSubmitted(job.job_id, first_s, job.user, job.partition, request, first_submit_s=first_s))
        array = self.jobs.get(-job.array_job_id) if job.unit > 0 else None
        if array is None:
            return job._replace(waiting_since_s=job.eligible_s, first_submit_s=first_s)
        return self._held(array, self._waiting(array, job))._replace(first_submit_s=first_s)

    def _waiting(self, before: JobRecord, job: JobRecord) -> JobRecord:
        """Return *job* with its waiting time continued from *before*, across begin times of ours."""
        since_s = _since_s(before)
        delay = self.delays.get(job.job_id) or self.delays.get(job.array_job_id)
        unmoved = before.eligible_s == job.eligible_s or (math.isnan(before.eligible_s) and math.isnan(job.eligible_s))
        if not unmoved and (delay is None or not job.eligible_s <= delay.until_s):
            return job._replace(waiting_since_s=job.eligible_s, delayed_s=before.delayed_s)
        more_s = 0.0 if unmoved or delay is None else job.eligible_s - max(before.eligible_s, delay.asked_s)
        return job._replace(
            waiting_since_s=since_s if unmoved else float(np.fmin(since_s, job.eligible_s)),
            delayed_s=max(before.delayed_s + more_s, 0.0) if math.isfinite(more_s) else before.delayed_s,
        )

    def _held(self, before: JobRecord, job: JobRecord) -> JobRecord:
        """Return *job* with what *before* had waited; a hold ends its present wait, and a new one begins after it."""
        job = job._replace(waited_s=before.waited_s, lost_s=before.lost_s)
        if math.isnan(before.held_since_s) and math.isnan(job.held_since_s):
            return job
        if math.isnan(job.held_since_s):
            return job._replace(waiting_since_s=self._released_s(before, job))
        if math.isnan(before.held_since_s):
            return job._replace(waiting_since_s=math.nan, waited_s=self._waited_until(before, self.now_s))
        return job._replace(waiting_since_s=math.nan, held_since_s=before.held_since_s)

    def _released_s(self, before: JobRecord, job: JobRecord) -> float:
        """Return when *job* began to wait after its hold: Slurm makes it eligible then, if it has no begin time."""
        if math.isnan(job.eligible_s):
            return job.eligible_s
        if job.eligible_s > self.now_s:
            delay = self.delays.get(job.job_id) or self.delays.get(job.array_job_id)
            return self.now_s if delay is not None and job.eligible_s <= delay.until_s else job.eligible_s
        moved = job.eligible_s != before.eligible_s and job.eligible_s > before.held_since_s
        return job.eligible_s if moved else self.now_s

    def _waited_until(self, job: JobRecord, at_s: float) -> float:
        """Return the time that a pending job has waited until *at_s*, before all of its runs."""
        more_s = at_s - _since_s(job) if math.isnan(job.held_since_s) else 0.0
        return job.waited_s + (max(more_s, 0.0) if math.isfinite(more_s) else 0.0)

    @cached_property
    def _array_submit_s(self) -> dict[int, float]:
        tasks = [job for job in self.jobs.values() if job.array_job_id]
        return {job.array_job_id: job.first_submit_s for job in sorted(tasks, key=lambda job: -job.first_submit_s)}

    def _ran_until(self, earlier: JobRecord, job: JobRecord) -> float:
        """Return the seconds of the run of *earlier* that its requeue ended; 0 where its times are not known."""
        return max(self._requeued_s(job) - earlier.started_s, 0.0) if math.isfinite(earlier.started_s) else 0.0

    def _requeued_s(self, job: JobRecord) -> float:
        """Return the end of the last run of a job that was queued again: Slurm sets its submit time to that."""
        return job.submitted_s if math.isfinite(job.submitted_s) else self.now_s

    def _requeue(self, earlier: JobRecord, job: JobRecord) -> None:
        at_s = self._requeued_s(job)
        if earlier.phase is Phase.RUNNING:
            # After several unobserved requeues the first end is unknown; an import of the accounting corrects OTHER.
            once = job.restarts == earlier.restarts + 1
            self.runs.append(EndedRun(earlier, at_s, JobState.REQUEUED if once else JobState.OTHER))
        self.events.append(JobRequeued(job.job_id, at_s, job.restarts, first_submit_s=earlier.first_submit_s))

    def _run(self, job: JobRecord, state: JobState) -> None:
        earlier = self.jobs.get(job.unit)
        if state is JobState.COMPLETING and earlier is not None and job.phase is Phase.PENDING:
            self._track(job._replace(started_s=math.nan))
            return
        if job.phase is not Phase.RUNNING:
            at_s = job.started_s if math.isfinite(job.started_s) else self.now_s
            self.events.append(JobStarted(job.job_id, at_s, job.restarts, first_submit_s=job.first_submit_s))
            job = job._replace(waited_s=self._waited_until(job, at_s))
        self._track(job._replace(phase=Phase.RUNNING))

    def _end(self, job: JobRecord, state: JobState, ended_s: float) -> None:
        ended_s = ended_s if math.isfinite(ended_s) else self.now_s
        # Slurm gives a job that was cancelled in the queue a start time equal to its end.
        ran = math.isfinite(job.started_s) and not (state is JobState.CANCELLED and job.started_s >= ended_s)
        run = job._replace(started_s=job.started_s if ran else math.nan)
        if job.phase is not Phase.ENDED:
            if ran and job.phase is Phase.PENDING:
                first_s = job.first_submit_s
                self.events.append(JobStarted(job.job_id, job.started_s, job.restarts, first_submit_s=first_s))
            self.events.append(JobEnded(job.job_id, ended_s, state, job.restarts, first_submit_s=job.first_submit_s))
            self.runs.append(EndedRun(run, ended_s, state))
        self._track(run._replace(phase=Phase.ENDED))

    def _vanish(self, job: JobRecord) -> None:
        # The end lies between the last observation and this one, at the latest at the time limit.
        ended_s = self.now_s
        if math.isfinite(job.started_s + job.time_limit_s):
            ended_s = min(ended_s, job.started_s + job.time_limit_s)
        self.runs.append(EndedRun(job, ended_s, JobState.OTHER))
        state, first_s = JobState.OTHER, job.first_submit_s
        self.events.append(JobEnded(job.job_id, ended_s, state, job.restarts, first_submit_s=first_s))

    def _track(self, job: JobRecord) -> None:
        self.changed[job.unit] = self.jobs[job.unit] = job


def _since_s(job: JobRecord) -> float:
    """Return when the present wait of *job* began; NaN where it is not eligible."""
    return job.eligible_s if math.isnan(job.waiting_since_s) else job.waiting_since_s


def _units(state: ClusterState) -> IntArray:
    return np.concatenate([units_in(table) for table in (state.pending, state.running, state.ended)])


def _arrays_begun(state: ClusterState) -> set[int]:
    """Return the ids of arrays with a task that runs or has ended."""
    return set(np.concatenate([state.running.array_job_id, state.ended.array_job_id]).tolist())


def _continues(earlier: JobRecord, job: JobRecord) -> bool:
    """Return True if *job*, with the unit of *earlier* and not requeued since, is the same job."""
    if job.unit > 0:
        same_time = job.restarts > 0 or _same_time(earlier.submitted_s, job.submitted_s)  # a requeue moves it late
        return job.restarts == earlier.restarts and same_time
    # The row of an array shows the submit time and restarts of any one of its tasks.
    return job.restarts > 0 or _same_time(earlier.first_submit_s, job.submitted_s)


def _continued(table: JobTable, earlier_s: FloatArray, now_s: float) -> FloatArray:
    """Return the time that jobs ran that continue earlier runs of *earlier_s*; unchanged for all others.

    Only a job with ``ckpt`` continues from its saved work.
    """
    continues = table.ckpt & (earlier_s > 0)
    if not continues.any():
        return table.ran_s
    runs = table.state == JobState.RUNNING
    this_s = np.where(runs, np.maximum(now_s - np.nan_to_num(table.started_s, nan=now_s), 0.0), 0.0)
    return np.where(continues, np.maximum(table.ran_s, earlier_s + this_s), table.ran_s)


def _same_time(one_s: float, other_s: float) -> bool:
    return not abs(one_s - other_s) > SAME_TIME_S


def held_rows(pending: JobTable, job_id: IntArray, until_s: FloatArray, now_s: float, within_s: float) -> BoolArray:
    """Return a mask of *pending* jobs that wait for the end of one of the holds (*job_id*, *until_s*)."""
    held = np.zeros(len(pending), dtype=np.bool_)
    order = np.argsort(pending.job_id)
    at = np.searchsorted(pending.job_id, job_id, sorter=order)
    inside = at < len(pending)
    rows = order[at[inside]]
    match = (pending.job_id[rows] == job_id[inside]) & (pending.eligible_s[rows] > now_s)
    match &= np.abs(pending.eligible_s[rows] - until_s[inside]) <= within_s
    held[rows[match]] = True
    return held
