"""Jobs as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from enum import IntEnum
from typing import Any

import numpy as np

from ..errors import CommentError
from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from .text.comment import CommentOptions, Deadline, read

SETTLE_S = 3.0
"""The shortest time, in seconds, between a job's requeue and its next start.

slurmd still holds the revoked credential of the ended run: it refuses a run that starts within the same second, and
the job FAILS (seen on 22.05). Slurm's own delay of two minutes prevents this.
"""


class JobState(IntEnum):
    """The state of a job; the base states of squeue(1)."""

    PENDING = 0
    CONFIGURING = 1
    RUNNING = 2
    SUSPENDED = 3
    COMPLETING = 4
    COMPLETED = 5
    FAILED = 6
    TIMEOUT = 7
    CANCELLED = 8
    NODE_FAIL = 9
    PREEMPTED = 10
    OUT_OF_MEMORY = 11
    REQUEUED = 12
    OTHER = 13

    @property
    def ended(self) -> bool:
        """True if the job, or this run of it, has ended."""
        return JobState.COMPLETED <= self <= JobState.REQUEUED


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs; the pending tasks of one array are one row, since arrays are the unit of order.

    Times are Unix seconds, NaN where unknown; texts are empty where Slurm has none.
    """

    job_id: IntArray  #: the id that scontrol takes to write this row (the array's for an array)
    array_job_id: IntArray  #: 0 unless part of an array
    task_id: IntArray  #: of one array task that started; -1 for a plain job or a whole pending array
    tasks: IntArray  #: number of pending tasks in this row; 1 for a plain job
    het_job_id: IntArray  #: leader of a heterogeneous job; 0 otherwise
    name: Labels
    user: Labels
    account: Labels
    qos: Labels
    partition: Labels  #: comma list as submitted
    state: IntArray  #: a JobState
    reason: Labels  #: Slurm's reason for the wait
    gpus: IntArray  #: per task, over all its nodes
    gpu_type: Labels
    nodes: IntArray
    cpus: IntArray
    memory_mib: FloatArray  #: over all nodes
    time_limit_s: FloatArray  #: infinite where unlimited
    submitted_s: FloatArray  #: Slurm's, reset by a requeue
    first_submit_s: FloatArray  #: ours, kept through requeues
    eligible_s: FloatArray  #: Slurm's, moved by every new StartTime, ours too
    waiting_since_s: FloatArray  #: EligibleTime without begin times of ours; NaN where it is the same
    delayed_s: FloatArray  #: total delay by begin times of ours
    started_s: FloatArray  #: for pending jobs Slurm's own estimate, where it has one
    ended_s: FloatArray  #: for running jobs the latest end by time limit
    ran_s: FloatArray  #: seconds of this run and of the earlier ones that it continues
    priority: IntArray  #: as Slurm has it, our points included
    site_points: IntArray  #: SiteFactor, 0 if none
    age_points: IntArray
    fairshare_points: IntArray
    size_points: IntArray
    partition_points: IntArray
    qos_points: IntArray
    tres_points: IntArray
    fixed: BoolArray  #: somebody set the priority by hand; multifactor no longer applies
    nice: IntArray
    restarts: IntArray
    requeueable: BoolArray
    interactive: BoolArray  #: no batch script: salloc, srun, portals
    exclusive: BoolArray
    reservation: Labels
    features: Labels
    licences: Labels
    dependency: Labels
    required_nodes: Labels
    node_list: Labels  #: where it runs
    comment: Labels
    off: BoolArray  #: its comment has ``slurmsched:off``
    ckpt: BoolArray  #: its owner allows requeues
    deadline_s: FloatArray  #: the time by which its owner wants the result; infinite without one
    held_by_us: BoolArray  #: its StartTime is an expiring hold of ours
    asked_s: FloatArray  #: time of our last stop request; NaN without one
    asks: IntArray  #: number of our stop requests within a day
    told: Labels  #: what we last wrote, or tried to write, into its AdminComment
    per_node: Labels  #: generic resources requested per job or per node, as squeue writes them
    gpu_util: FloatArray  #: 0..1, mean of earlier runs of it or of its kind; NaN where never measured
    memory_util: FloatArray  #: the same of the memory controller
    gpu_memory_mib: FloatArray  #: the largest use of one GPU by such runs; NaN where never measured
    unstable: BoolArray  #: the utilisation of such runs was unsteady
    measured: BoolArray  #: there are such runs
    share_score: IntArray  #: its disturbance of another job on its GPUs: 0 tiny, 1 medium, 2 jumbo
    shares: BoolArray  #: the share token in its comment is ours
    asked_for: Labels  #: PARTITIONS GPUS such as gpu gpu:a100:2, of a job that shares: what it has back if it does not
    given_back: BoolArray  #: it waited for GPUs to share without success and got its own back
    share_refusal: Labels  #: Slurm's message if it recently refused to change its GPUs into shared ones; else empty
    per_task: BoolArray  #: requests generic resources per task or socket, which cannot be changed into slots
    per_gpu: BoolArray  #: it or its partition requests CPUs or memory per GPU, which slots would change

    def settled(self, now_s: float) -> BoolArray:
        """Return a mask of jobs that were never requeued, or so long ago that they may start again."""
        settled: BoolArray = (self.restarts == 0) | self.submitted_before(now_s - SETTLE_S)
        return settled

    def submitted_before(self, time_s: float) -> BoolArray:
        """Return a mask of jobs submitted, or requeued, at *time_s* at the latest."""
        before: BoolArray = self.submitted_s <= time_s
        return before

    def row_of(self, job_id: int) -> int | None:
        """Return the row of *job_id*, or of the array that holds it; None if there is none."""
        for column in (self.job_id, self.array_job_id):
            rows = np.flatnonzero(column == job_id)
            if len(rows):
                return int(rows[0])
        return None


NEUTRAL: dict[str, Any] = {
    "task_id": -1,
    "tasks": 1,
    "nodes": 1,
    "cpus": 1,
    "time_limit_s": np.inf,
    "started_s": np.nan,
    "ended_s": np.nan,
    "eligible_s": np.nan,
    "waiting_since_s": np.nan,
    "asked_s": np.nan,
    "deadline_s": np.inf,
    "priority": 1,
    "requeueable": True,
    "gpu_util": np.nan,
    "memory_util": np.nan,
    "gpu_memory_mib": np.nan,
    "share_score": 2,
}
"""The default values of columns; every other column is zero, false or empty."""


def job_table(length: int, **columns: Any) -> JobTable:
    """Build a JobTable of *length* rows from *columns*; missing ones take the neutral value."""
    return table_of(JobTable, length, NEUTRAL, columns)


def deadlines(
    comment: Labels, wishes: Sequence[CommentOptions], first_submit_s: FloatArray, zone: tzinfo
) -> FloatArray:
    """Return the deadline of each job, given the *wishes* of each distinct *comment*.

    Local times are those of *zone*. Infinite without a deadline, and for a local time that is skipped or ambiguous.
    """
    texts = [wish.deadline for wish in wishes]
    at_s = comment.map([_since_submit_or_1970_s(deadline, zone) for deadline in texts], np.float64)
    relative = comment.map([deadline is not None and deadline.since == "submit" for deadline in texts], np.bool_)
    deadline_s = np.where(relative, first_submit_s, 0.0) + at_s
    return np.where(np.isnan(deadline_s), np.inf, deadline_s)


def deadlines_from(jobs: JobTable, first_submit_s: FloatArray) -> FloatArray:
    """Return the deadlines of *jobs*; those relative to the submission count from *first_submit_s* instead."""
    later_s = first_submit_s - jobs.first_submit_s
    moved = np.flatnonzero((later_s != 0) & np.isfinite(later_s) & np.isfinite(jobs.deadline_s))
    if not len(moved):
        return jobs.deadline_s
    comment = Labels.of(jobs.comment.take(moved))
    texts = [read(text)[0].deadline for text in comment.names]
    relative = comment.map([deadline is not None and deadline.since == "submit" for deadline in texts], np.bool_)
    deadline_s = jobs.deadline_s.copy()
    deadline_s[moved[relative]] += later_s[moved[relative]]
    return deadline_s


def _since_submit_or_1970_s(deadline: Deadline | None, zone: tzinfo) -> float:
    if deadline is None:
        return np.inf
    try:
        return deadline.resolve(0.0, zone)
    except CommentError:
        return np.inf
