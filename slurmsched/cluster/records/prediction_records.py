"""Recorded predictions and their outcomes, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of


class KeptState(IntEnum):
    """The state of a recorded prediction."""

    OPEN = 0  #: the job has not ended
    SETTLED = 1  #: it ran to its end
    VOID = 2  #: it never ran, or that run was not its last


@dataclass(frozen=True, eq=False)
class PredictionRecords(Table):
    """Recorded predictions, one row each, oldest first; times are Unix seconds, NaN where missing.

    The ``raw`` columns are those of the play-forward alone; the others were shown to users.
    """

    job_id: IntArray
    first_submit_s: FloatArray
    restarts: IntArray
    made_s: FloatArray
    number: IntArray  #: 0 for the job's first, 1 for the next that differed much
    partition: Labels
    gpus: IntArray
    raw_start_s: FloatArray
    raw_finish_s: FloatArray
    scale: FloatArray  #: uncertainty of the finish before calibration, in units of log time
    start_s: FloatArray
    start_from_s: FloatArray
    start_by_s: FloatArray
    finish_s: FloatArray
    finish_from_s: FloatArray
    finish_by_s: FloatArray
    slurm_start_s: FloatArray  #: Slurm's own first estimate, then or later
    started_s: FloatArray
    ended_s: FloatArray
    state: IntArray  #: a KeptState
    delays: IntArray  #: 1 where we delayed jobs for promises when it was made, else 0
    windows: FloatArray  #: 1 where a reservation of others was on its nodes before its finish, else 0; NaN: not known

    @property
    def started(self) -> BoolArray:
        """A mask of predictions whose start is known and counts."""
        return np.asarray(np.isfinite(self.started_s) & (self.state != KeptState.VOID))

    @property
    def settled(self) -> BoolArray:
        """A mask of predictions whose finish is known and counts."""
        return np.asarray(self.state == KeptState.SETTLED)


_TIMES = (
    *("raw_start_s", "raw_finish_s", "start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s"),
    *("finish_by_s", "slurm_start_s", "started_s", "ended_s", "windows"),
)


def kept_table(length: int, **columns: Any) -> PredictionRecords:
    """Build PredictionRecords of *length* rows from *columns*; missing times are NaN."""
    return table_of(PredictionRecords, length, dict.fromkeys(_TIMES, np.nan), columns)


NO_RECORDS = kept_table(0)
"""An empty table."""
