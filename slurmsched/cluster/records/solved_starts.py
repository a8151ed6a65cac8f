"""Starts that the solver has planned for jobs with deadlines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import FloatArray, IntArray, Table, table_of


@dataclass(frozen=True, eq=False)
class SolvedStarts(Table):
    """The latest answer of the solver: a planned start per job, beside which all others fit; times are Unix seconds."""

    job_id: IntArray
    start_s: FloatArray
    made_s: FloatArray  #: the time of the view that was planned

    def of(self, job_id: IntArray) -> FloatArray:
        """Return the planned start of each of *job_id*; NaN where there is none."""
        starts_s = dict(zip(self.job_id.tolist(), self.start_s.tolist(), strict=True))
        return np.array([starts_s.get(job, np.nan) for job in job_id.tolist()], dtype=np.float64)


NO_SOLVED_STARTS = table_of(SolvedStarts, 0, {}, {})
"""An empty table."""
