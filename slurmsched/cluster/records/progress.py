"""Progress that running jobs report of themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Table, places_of, table_of

_UNKNOWN: FloatArray = np.zeros(0)


def _unknown() -> FloatArray:
    """Return the slowdowns of jobs from a source that does not know them; the table fills in NaN for each."""
    return _UNKNOWN


@dataclass(frozen=True, eq=False)
class ProgressTable(Table):
    """The training progress of jobs that run, or wait to go on, by their own reports."""

    job_id: IntArray
    iteration: IntArray  #: the latest one reported
    accuracy: FloatArray  #: the highest one, 0 to 1; NaN where none was reported
    loss_fall: FloatArray  #: relative fall of the lowest loss in the last quarter of the iterations; NaN where unknown
    late_fall: FloatArray  #: the part of the whole fall of its loss that came in that quarter, 0..1; NaN where unknown
    may_end: BoolArray  #: its next report is answered with a stop
    settled: BoolArray  #: more training hardly helps, by the rule of ``stop=opt``; False for jobs without it
    slowdown: FloatArray = field(
        default_factory=_unknown
    )  #: time of an iteration over that at its best; NaN if unknown

    def __post_init__(self) -> None:
        if self.slowdown is _UNKNOWN:
            object.__setattr__(self, "slowdown", np.full(len(self.job_id), np.nan))
        super().__post_init__()


NO_PROGRESS = table_of(ProgressTable, 0, {}, {})
"""An empty table."""


def rows_of(progress: ProgressTable, job_id: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the rows of those of the jobs that reported any progress, and a mask of these jobs."""
    rows = places_of(job_id, progress.job_id)
    known = rows >= 0
    return rows[known], known
