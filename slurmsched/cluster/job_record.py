"""What is remembered of each job from one look at the cluster to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from typing import Any, Self

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels
from .jobs import JobState, JobTable
from .records.outcomes import OutcomeTable


class Phase(IntEnum):
    """How far a job is; ENDED ones stay known while Slurm does, since they can still be requeued."""

    PENDING = 0
    RUNNING = 1
    ENDED = 2


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job as last met: enough to write its outcome if it is never seen again."""

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
    waiting_since_s: float = float("nan")  #: when it became eligible, begin times of ours left out; NaN where unknown
    delayed_s: float = 0.0  #: how long begin times of ours have kept it from starting

    @property
    def unit(self) -> int:
        """What it is followed by: its id, negative for the waiting tasks of an array.

        The last task of an array that starts takes over the array's id, and tasks of the array may wait again
        beside it after a requeue: two things, one id.
        """
        return -self.job_id if self.array_job_id > 0 and self.task_id < 0 else self.job_id


def units_in(table: JobTable) -> IntArray:
    """The ``unit`` of each row."""
    return np.where((table.array_job_id > 0) & (table.task_id < 0), -table.job_id, table.job_id)


_COLUMNS = tuple(f.name for f in fields(JobRecord) if f.default is MISSING)


def jobs_in(table: JobTable, rows: IntArray) -> Iterator[JobRecord]:
    """The jobs in *rows* of *table*, without what one look does not show: first submit, phase, delays."""
    some = table.take(rows)
    columns = (getattr(some, name) for name in _COLUMNS)
    for values in zip(*(list(c) if isinstance(c, Labels) else c.tolist() for c in columns), strict=True):
        yield JobRecord(*values)


@dataclass(frozen=True)
class EndedRun:
    """One run of a job that is over."""

    job: JobRecord
    ended_s: float
    state: JobState


def outcomes_of(runs: Iterable[EndedRun]) -> OutcomeTable:
    """The outcomes of *runs*, oldest end first."""
    ordered = sorted(runs, key=lambda run: (run.ended_s, run.job.job_id, run.job.restarts))
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


_TEXTS = ("name", "user", "account", "qos", "partition")
_INTS = ("job_id", "gpus", "nodes", "cpus")
_SECONDS = ("time_limit_s", "first_submit_s", "eligible_s", "started_s")


@dataclass(frozen=True, eq=False)
class Index:
    """What decides whether a job has changed, as columns sorted by unit."""

    unit: IntArray
    submitted_s: FloatArray
    first_submit_s: FloatArray
    eligible_s: FloatArray
    waiting_since_s: FloatArray
    delayed_s: FloatArray
    started_s: FloatArray
    restarts: IntArray
    tasks: IntArray
    phase: IntArray

    @classmethod
    def of(cls, jobs: dict[int, JobRecord]) -> Self:
        """The index of *jobs*."""
        ordered = [jobs[unit] for unit in sorted(jobs)]
        kinds = {f.name: np.float64 if f.name.endswith("_s") else np.int64 for f in fields(cls)}
        columns: dict[str, Any] = {
            name: np.array([getattr(job, name) for job in ordered], dtype=kind) for name, kind in kinds.items()
        }
        return cls(**columns)

    def find(self, unit: IntArray) -> tuple[IntArray, BoolArray]:
        """Where each of *unit* stands, and whether it stands there at all."""
        if not len(self.unit):
            return np.zeros(len(unit), dtype=np.int64), np.zeros(len(unit), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.unit, unit), len(self.unit) - 1)
        return at, self.unit[at] == unit

    def unchanged(self, table: JobTable, phase: Phase) -> BoolArray:
        """Which rows of *table*, all in *phase*, are as they were when last met."""
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
        if phase is Phase.RUNNING:
            same &= completing | _equal(self.started_s[at], table.started_s)
        return np.asarray(same, dtype=np.bool_)


def _equal(left: FloatArray, right: FloatArray) -> BoolArray:
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)), dtype=np.bool_)
