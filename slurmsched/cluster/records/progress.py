"""Progress that running jobs report of themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ..columns import BoolArray, FloatArray, IntArray, Table, table_of


@dataclass(frozen=True, eq=False)
class ProgressTable(Table):
    """The training progress of running jobs, by their own reports."""

    job_id: IntArray
    iteration: IntArray  #: the latest one reported
    accuracy: FloatArray  #: the highest one, 0 to 1; NaN where none was reported
    loss_fall: FloatArray  #: relative fall of the lowest loss in the last quarter of the iterations; NaN where unknown
    may_end: BoolArray  #: its next report is answered with a stop
    settled: BoolArray  #: more training hardly helps, by the rule of ``stop=opt``; False for jobs without it


NO_PROGRESS = table_of(ProgressTable, 0, {}, {})
"""An empty table."""
