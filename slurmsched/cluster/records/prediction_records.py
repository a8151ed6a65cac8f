"""Predictions that were kept, and what came of them, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of


class KeptState(IntEnum):
    """What became of a prediction."""

    OPEN = 0  #: the job has not ended
    SETTLED = 1  #: it ran to its end
    VOID = 2  #: it never ran, or that run was not its last


@dataclass(frozen=True, eq=False)
class PredictionRecords(Table):
    """One row for each prediction that was kept, oldest first; times are Unix seconds, NaN where there is none.

    ``raw`` is the play-forward alone; the others are what people were told.
    """

    job_id: IntArray
    first_submit_s: FloatArray
    restarts: IntArray
    made_s: FloatArray
    number: IntArray  #: 0 for the first of the job, 1 for the next that differed much
    partition: Labels
    gpus: IntArray
    raw_start_s: FloatArray
    raw_finish_s: FloatArray
    scale: FloatArray  #: how uncertain the finish was by itself, in units of log time
    start_s: FloatArray
    start_from_s: FloatArray
    start_by_s: FloatArray
    finish_s: FloatArray
    finish_from_s: FloatArray
    finish_by_s: FloatArray
    slurm_start_s: FloatArray  #: the first estimate of Slurm's own, then or later
    started_s: FloatArray
    ended_s: FloatArray
    state: IntArray  #: a KeptState
    delays: IntArray  #: 1 where we delayed jobs for promises when it was made, else 0

    @property
    def started(self) -> BoolArray:
        """Which starts have come and count."""
        return np.asarray(np.isfinite(self.started_s) & (self.state != KeptState.VOID))

    @property
    def settled(self) -> BoolArray:
        """Which finishes have come and count."""
        return np.asarray(self.state == KeptState.SETTLED)


_TIMES = (
    *("raw_start_s", "raw_finish_s", "start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s"),
    *("finish_by_s", "slurm_start_s", "started_s", "ended_s"),
)


def kept_table(length: int, **columns: Any) -> PredictionRecords:
    """A KeptTable of *length* rows from the columns that are known."""
    return table_of(PredictionRecords, length, dict.fromkeys(_TIMES, np.nan), columns)


NO_RECORDS = kept_table(0)
"""Nothing was predicted yet."""
