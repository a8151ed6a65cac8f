"""Predicted starts and finishes of jobs, as columns beside their ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of


class PredictionKind(IntEnum):
    """The kind of a job's prediction, or the reason why there is none."""

    PREDICTED = 0  #: waits; start and finish are predicted
    RUNNING = 1  #: has started; the finish is predicted
    ARRAY = 2  #: waiting tasks of one array; start and finish of the first to start are predicted
    LEFT_ALONE = 3  #: predicted, but we do not order it: its comment has off, or its priority was set by hand
    NO_HISTORY = 4  #: predicted, but without a run like it: its runtime is taken from its time limit
    HELD = 5  #: its user or an admin holds it
    DEPENDENT = 6  #: waits for other jobs
    RESERVED = 7  #: requests a reservation
    LIMITED = 8  #: a limit of its account or QOS blocks it, or another reason that is not played forward
    HETEROGENEOUS = 9  #: a component of a heterogeneous job
    PARTITION_DOWN = 10  #: none of its partitions is up
    CANNOT_RUN = 11  #: no nodes could ever hold it
    NO_ROOM = 12  #: the nodes that could hold it do not become free within the play-forward
    SUSPENDED = 13  #: the time at which it continues is unknown
    BEYOND = 14  #: too far back in a very long queue to be played forward
    UNPLACED = 15  #: it could run, spread over nodes in a way that is not played forward

    @property
    def has_value(self) -> bool:
        """True if the prediction has a finish."""
        return self <= PredictionKind.NO_HISTORY


@dataclass(frozen=True, eq=False)
class PredictionTable(Table):
    """Predictions of each waiting or running job, pending ones first, in the order of the view.

    Times are Unix seconds, NaN without a prediction. ``from`` is the 10 % quantile and ``by`` the 90 % quantile, each
    one-sided.
    """

    job_id: IntArray  #: the array's for an array
    array_job_id: IntArray  #: 0 unless part of an array
    first_submit_s: FloatArray
    restarts: IntArray
    made_s: FloatArray  #: time of the view
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
    begins_s: FloatArray  #: no start is possible before: its begin time, the end of a window; 0 where none is known
    slurm_start_s: FloatArray  #: Slurm's own estimate at the time (squeue --start)
    rank: IntArray  #: place in the order that was played, 0 the first; -1 for jobs that were not played or run
    ahead: IntArray  #: waiting jobs (tasks of arrays) before it in that order that may use nodes of its own
    ahead_gpu_s: FloatArray  #: GPU-seconds those are forecast to take; core-seconds for a job without GPUs, and below
    running_gpu_s: FloatArray  #: GPU-seconds that the jobs which run on its nodes are forecast still to take
    power_s: FloatArray  #: seconds that its nodes take to power up before it runs; 0 where they are up
    runtime_s: FloatArray  #: forecast, from start to finish; of a running job in all
    time_limit_s: FloatArray  #: infinite where unlimited
    source: Labels  #: the origin of the runtime, in words
    reason: Labels  #: Slurm's reason for its wait
    obstacle: Labels  #: what keeps it from any start, and what ends that, in sentences; empty where nothing does
    doubts: Labels  #: what of limits its times leave out, a line each
    start_basis: IntArray  #: number of past predictions behind the start's interval; 0 before calibration
    finish_basis: IntArray  #: the same for the finish's

    @property
    def has_value(self) -> BoolArray:
        """A mask of the rows with a finish."""
        return np.isfinite(self.finish_s)

    def row_of(self, job_id: int) -> int | None:
        """Return the row of *job_id*, or of the array that holds it; None if there is none."""
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
    """Build a PredictionTable of *length* rows from *columns*; missing ones are neutral."""
    return table_of(PredictionTable, length, _NEUTRAL, columns)
