"""The record of each job between two observations of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple, Self

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, among
from .jobs import JobState, JobTable
from .reasons import reason_of
from .records.outcomes import OutcomeTable


class Phase(IntEnum):
    """The phase of a job; ENDED jobs are recorded while Slurm has them, since they can still be requeued."""

    PENDING = 0
    RUNNING = 1
    ENDED = 2


class JobRecord(NamedTuple):
    """A job as last observed, with all data for its outcome in case it is never observed again.

    A named tuple, since a first observation makes one for each job of the cluster.
    """

    job_id: int
    array_job_id: int
    task_id: int
    tasks: int
    name: str
    user: str
    account: str
    qos: str
    partition: str
    gpus: int
    nodes: int
    cpus: int
    time_limit_s: float
    submitted_s: float
    eligible_s: float
    started_s: float  #: NaN unless it runs or ran
    restarts: int
    first_submit_s: float = float("nan")
    phase: Phase = Phase.PENDING
    waiting_since_s: float = float("nan")  #: when it became eligible, without begin times of ours; NaN where unknown
    delayed_s: float = 0.0  #: total delay by begin times of ours
    ran_s: float = 0.0  #: seconds of its earlier runs
    gpu_type: str = ""  #: of the nodes of its last run; empty where unknown, or of several types
    ran_on: str = ""  #: the seconds of its earlier runs by number of GPUs, as 1=600 4=1200
    waited_s: float = 0.0  #: its wait before ``waiting_since_s``: before earlier runs and holds
    lost_s: float = 0.0  #: its wait and runs before a hold that its owner chose, which give it no place any more
    held_since_s: float = float("nan")  #: when a hold of its owner or an admin was first seen; NaN without one
    interactive: int = 0  #: 1 without a batch script

    @property
    def unit(self) -> int:
        """The key of the record: the job id, negative for the waiting tasks of an array.

        The last task of an array to start takes over the array's id, and other tasks of the array may wait again
        beside it after a requeue. The sign tells the two apart.
        """
        return -self.job_id if self.array_job_id > 0 and self.task_id < 0 else self.job_id


def units_in(table: JobTable) -> IntArray:
    """Return the ``unit`` of each row."""
    return np.where((table.array_job_id > 0) & (table.task_id < 0), -table.job_id, table.job_id)


def is_held(table: JobTable) -> BoolArray:
    """Select pending jobs under a hold, which gives them no priority (scontrol(1), hold)."""
    return np.asarray(table.priority == 0)


def chose_hold(table: JobTable) -> BoolArray:
    """Select pending jobs under a hold that their owners can give them."""
    chosen = table.reason.map([reason_of(text).chosen_hold for text in table.reason.names], np.bool_)
    return np.asarray(is_held(table) & chosen)


_COLUMNS = tuple(name for name in JobRecord._fields if name not in JobRecord._field_defaults)


def jobs_in(table: JobTable, rows: IntArray) -> Iterator[JobRecord]:
    """Yield the jobs in *rows* of *table*, without fields that one observation lacks: first submit, phase, delays."""
    columns = (getattr(table, name) for name in _COLUMNS)
    lists = [list(c.take(rows)) if isinstance(c, Labels) else c[rows].tolist() for c in columns]
    for values, interactive in zip(zip(*lists, strict=True), table.interactive[rows].tolist(), strict=True):
        yield JobRecord(*values)._replace(interactive=int(interactive))


@dataclass(frozen=True)
class EndedRun:
    """A run of a job that has ended."""

    job: JobRecord
    ended_s: float
    state: JobState


def outcomes_of(runs: Iterable[EndedRun]) -> OutcomeTable:
    """Return the outcomes of *runs*, oldest end first."""
    ordered = sorted(runs, key=lambda run: (run.ended_s, run.job.job_id, run.job.restarts))
    return _as_table(ordered) if ordered else NO_OUTCOMES  # most observations show no end


def _as_table(ordered: Sequence[EndedRun]) -> OutcomeTable:
    jobs = [run.job for run in ordered]
    columns: dict[str, Any] = {name: Labels.of(getattr(job, name) for job in jobs) for name in _TEXTS}
    columns |= {name: np.array([getattr(job, name) for job in jobs], dtype=np.int64) for name in _INTS}
    columns |= {name: np.array([getattr(job, name) for job in jobs], dtype=np.float64) for name in _SECONDS}
    since_s = np.array([job.waiting_since_s for job in jobs], dtype=np.float64)
    columns["eligible_s"] = np.where(np.isnan(since_s), columns["eligible_s"], since_s)
    ended_s = np.array([run.ended_s for run in ordered], dtype=np.float64)
    return OutcomeTable(
        **columns,
        restart=np.array([job.restarts for job in jobs], dtype=np.int64),
        ended_s=ended_s,
        runtime_s=np.nan_to_num(np.maximum(ended_s - columns["started_s"], 0.0), nan=0.0),
        state=np.array([run.state for run in ordered], dtype=np.int64),
    )


_TEXTS = ("name", "user", "account", "qos", "partition", "gpu_type")
_INTS = ("job_id", "gpus", "nodes", "cpus", "interactive")
_SECONDS = ("time_limit_s", "first_submit_s", "eligible_s", "started_s")
NO_OUTCOMES = _as_table([])


@dataclass(frozen=True, eq=False)
class Index:
    """The fields by which changes of jobs are detected, as columns sorted by unit."""

    unit: IntArray
    submitted_s: FloatArray
    first_submit_s: FloatArray
    eligible_s: FloatArray
    waiting_since_s: FloatArray
    delayed_s: FloatArray
    ran_s: FloatArray
    waited_s: FloatArray
    lost_s: FloatArray
    held_since_s: FloatArray
    started_s: FloatArray
    restarts: IntArray
    tasks: IntArray
    phase: IntArray

    @classmethod
    def of(cls, jobs: dict[int, JobRecord]) -> Self:
        """Build the index of *jobs*."""
        units = sorted(jobs)
        rows = zip(*(jobs[unit] for unit in units), strict=True) if units else [()] * len(JobRecord._fields)
        columns: dict[str, Any] = {"unit": units, **dict(zip(JobRecord._fields, rows, strict=True))}
        kinds = {f.name: np.float64 if f.name.endswith("_s") else np.int64 for f in fields(cls)}
        arrays: dict[str, Any] = {name: np.array(columns[name], dtype=kind) for name, kind in kinds.items()}
        return cls(**arrays)

    def changed(self, jobs: Mapping[int, JobRecord | None]) -> Self:
        """Return the index with new or changed records of *jobs* by unit, None for those that are gone."""
        if not jobs:
            return self
        kept = ~among(self.unit, np.fromiter(jobs, np.int64, len(jobs)))
        more = self.of({unit: job for unit, job in jobs.items() if job is not None})
        order = np.argsort(np.concatenate([self.unit[kept], more.unit]))
        columns = ((getattr(self, f.name)[kept], getattr(more, f.name)) for f in fields(self))
        return type(self)(*(np.concatenate(both)[order] for both in columns))

    def find(self, unit: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the index of each of *unit*, and a mask of those that are present."""
        if not len(self.unit):
            return np.zeros(len(unit), dtype=np.int64), np.zeros(len(unit), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.unit, unit), len(self.unit) - 1)
        return at, self.unit[at] == unit

    def lacks(self, unit: IntArray) -> BoolArray:
        """Return a mask of the records that none of *unit* is."""
        missing = np.ones(len(self.unit), dtype=np.bool_)
        at, found = self.find(unit)
        missing[at[found]] = False
        return missing

    def unchanged(self, table: JobTable, phase: Phase) -> BoolArray:
        """Return a mask of rows of *table*, all in *phase*, that have not changed since the last observation."""
        at, found = self.find(units_in(table))
        if not len(self.unit):
            return found
        # A requeued job is COMPLETING until its old run is cleaned up: it has not started again.
        completing = table.state == JobState.COMPLETING
        same = found & ((self.phase[at] == phase) | (completing & (self.phase[at] == Phase.PENDING)))
        same &= (self.restarts[at] == table.restarts) & (self.tasks[at] == table.tasks)
        same &= _equal(self.submitted_s[at], table.submitted_s)
        if phase is Phase.PENDING:
            same &= _equal(self.eligible_s[at], table.eligible_s)
            same &= np.isfinite(self.held_since_s[at]) == is_held(table)
        if phase is Phase.RUNNING:
            same &= completing | _equal(self.started_s[at], table.started_s)
        return np.asarray(same, dtype=np.bool_)


def _equal(left: FloatArray, right: FloatArray) -> BoolArray:
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)), dtype=np.bool_)
