"""Jobs as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of


class JobState(IntEnum):
    """Where a job is in its life; the base states of squeue(1)."""

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
        """Whether the job (or this run of it) is over."""
        return JobState.COMPLETED <= self <= JobState.REQUEUED


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs; the pending tasks of one array are one row, since arrays are the unit of order.

    Times are Unix seconds, NaN where unknown; texts are empty where Slurm has none.
    """

    job_id: IntArray  #: the id that scontrol takes to write this row (the array's for an array)
    array_job_id: IntArray  #: 0 unless part of an array
    task_id: IntArray  #: of one array task that started; -1 for a plain job or a whole pending array
    tasks: IntArray  #: pending tasks this row stands for; 1 for a plain job
    het_job_id: IntArray  #: leader of a heterogeneous job; 0 otherwise
    name: Labels
    user: Labels
    account: Labels
    qos: Labels
    partition: Labels  #: comma list as submitted
    state: IntArray  #: a JobState
    reason: Labels  #: why Slurm says it is pending
    gpus: IntArray  #: per task, over all its nodes
    gpu_type: Labels
    nodes: IntArray
    cpus: IntArray
    memory_mib: FloatArray  #: over all nodes
    time_limit_s: FloatArray  #: infinite where unlimited
    submitted_s: FloatArray  #: Slurm's, reset by a requeue
    first_submit_s: FloatArray  #: ours, kept through requeues
    eligible_s: FloatArray
    started_s: FloatArray  #: for pending jobs Slurm's own estimate, where it has one
    ended_s: FloatArray  #: for running jobs the latest end by time limit
    ran_s: FloatArray  #: seconds it has run, this run and earlier ones it went on from
    priority: IntArray  #: as Slurm has it, our points included
    site_points: IntArray  #: SiteFactor, 0 if none
    age_points: IntArray
    fairshare_points: IntArray
    size_points: IntArray
    partition_points: IntArray
    qos_points: IntArray
    tres_points: IntArray
    fixed: BoolArray  #: somebody set the priority by hand, multifactor no longer counts
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
    off: BoolArray  #: its owner said ``slurmsched:off``
    ckpt: BoolArray  #: its owner consented to requeues
    held_by_us: BoolArray  #: its StartTime is an expiring hold of ours

    def row_of(self, job_id: int) -> int | None:
        """The row of *job_id*, or of the array that holds it; None if there is none."""
        for column in (self.job_id, self.array_job_id):
            found = np.flatnonzero(column == job_id)
            if len(found):
                return int(found[0])
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
    "priority": 1,
    "requeueable": True,
}
"""What a column holds where nothing is known; every other column is zero, false or empty."""


def job_table(length: int, **columns: Any) -> JobTable:
    """A JobTable of *length* rows from the columns that are known; the rest takes the neutral value."""
    return table_of(JobTable, length, NEUTRAL, columns)
