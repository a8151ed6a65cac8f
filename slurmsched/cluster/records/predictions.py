"""When jobs will start and finish, as columns beside their ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of


class PredictionKind(IntEnum):
    """What can be said of a job, and why nothing where nothing can be said."""

    PREDICTED = 0  #: waits; start and finish are said
    RUNNING = 1  #: has started; the finish is said
    ARRAY = 2  #: waiting tasks of one array; start and finish of the first to start are said
    LEFT_ALONE = 3  #: said as well, but we do not order it: its owner said off, or its priority was set by hand
    NO_HISTORY = 4  #: said as well, but no run like it is known: its runtime is taken from its time limit
    HELD = 5  #: its user or an admin holds it
    DEPENDENT = 6  #: waits for other jobs
    RESERVED = 7  #: asks for a reservation
    LIMITED = 8  #: a limit of its account or QOS stands against it, or another reason that is not played forward
    HETEROGENEOUS = 9  #: a component of a heterogeneous job
    PARTITION_DOWN = 10  #: none of its partitions is up
    CANNOT_RUN = 11  #: no nodes could ever hold it
    NO_ROOM = 12  #: the nodes that could hold it never come free, as far as can be seen
    SUSPENDED = 13  #: nobody knows when it goes on
    BEYOND = 14  #: so far back in a very long queue that it was not played forward

    @property
    def has_value(self) -> bool:
        """Whether the prediction has a finish."""
        return self <= PredictionKind.NO_HISTORY


@dataclass(frozen=True, eq=False)
class PredictionTable(Table):
    """What is predicted of each job that waits or runs, pending ones first, as in the view it was made of.

    Times are Unix seconds, NaN where nothing can be said. ``from`` is what one in ten is earlier than and ``by`` what
    nine in ten are done by, each one-sided.
    """

    job_id: IntArray  #: the array's for an array
    array_job_id: IntArray  #: 0 unless part of an array
    first_submit_s: FloatArray
    restarts: IntArray
    made_s: FloatArray  #: of which moment the view was
    kind: IntArray  #: a PredictionKind
    user: Labels
    account: Labels
    partition: Labels  #: comma list as submitted
    gpus: IntArray  #: per task
    tasks: IntArray  #: waiting tasks this row stands for; 1 for a plain job
    start_s: FloatArray  #: median; of a running job when it started
    start_from_s: FloatArray
    start_by_s: FloatArray
    finish_s: FloatArray  #: median
    finish_from_s: FloatArray
    finish_by_s: FloatArray
    slurm_start_s: FloatArray  #: Slurm's own estimate at the time (squeue --start)
    rank: IntArray  #: place in the order that was played, 0 the first; -1 for jobs that were not played or run
    ahead: IntArray  #: waiting jobs (tasks of arrays) before it in that order that may use nodes of its own
    ahead_gpu_s: FloatArray  #: GPU-seconds those are forecast to take
    running_gpu_s: FloatArray  #: GPU-seconds that the jobs which run on its nodes are forecast still to take
    runtime_s: FloatArray  #: forecast, from start to finish; of a running job in all
    time_limit_s: FloatArray  #: infinite where unlimited
    source: Labels  #: what the runtime rests on, in words
    reason: Labels  #: why Slurm says it waits
    start_basis: IntArray  #: past predictions that the start's interval rests on; 0 where it is not calibrated yet
    finish_basis: IntArray  #: the same of the finish's

    @property
    def has_value(self) -> BoolArray:
        """Which rows have a finish."""
        return np.isfinite(self.finish_s)

    def row_of(self, job_id: int) -> int | None:
        """The row of *job_id*, or of the array that holds it; None if there is none."""
        for column in (self.job_id, self.array_job_id):
            rows = np.flatnonzero(column == job_id)
            if len(rows):
                return int(rows[0])
        return None


_TIMES = ("start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s", "finish_by_s", "slurm_start_s")
_SPANS = ("ahead_gpu_s", "running_gpu_s", "runtime_s")
_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys((*_TIMES, *_SPANS), np.nan),
    "kind": int(PredictionKind.PREDICTED),
    "tasks": 1,
    "rank": -1,
    "time_limit_s": np.inf,
}


def prediction_table(length: int, **columns: Any) -> PredictionTable:
    """A PredictionTable of *length* rows from the columns that are known; of the rest nothing is said."""
    return table_of(PredictionTable, length, _NEUTRAL, columns)


NO_PREDICTIONS = prediction_table(0)
"""Before the first."""
