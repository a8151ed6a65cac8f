"""Moments of jobs that agree with each other and with the present: no waiting job starts in the past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.records.predictions import PredictionKind, PredictionTable

LEAST_S = 5.0  #: the least distance from the median to the high end: rounding, and the intervals of Slurm's loops
LEAST_PART = 1 / 3  #: of its forecast that a job runs at least, as no forecast is surer than a factor of three

_ENDS = ("from_s", "s", "by_s")


def as_of(table: PredictionTable, now_s: FloatArray | float) -> PredictionTable:
    """Return *table* as it is to be read at *now_s*, of jobs that have not started or ended until then.

    A waiting job starts now at the soonest, and ends at each of the three quantiles a part of its runtime after it has
    started. Where the start and the finish disagree, the finish counts. A running job ends now at the soonest.
    """
    now_s = np.broadcast_to(np.asarray(now_s, dtype=np.float64), len(table))
    waits = table.has_value & (table.kind != PredictionKind.RUNNING)
    runs = table.has_value & ~waits
    needs_s = LEAST_PART * np.nan_to_num(np.minimum(table.runtime_s, table.time_limit_s), posinf=0.0)
    start, finish = (np.array([getattr(table, f"{name}_{end}") for end in _ENDS]) for name in ("start", "finish"))
    soonest_s = now_s + np.where(waits, needs_s, 0.0)
    later = np.maximum(finish, soonest_s)
    begins = _apart(np.minimum(np.maximum(start, now_s), later - needs_s), now_s)
    ends = _apart(np.maximum(later, begins + needs_s), begins[0] + needs_s)
    low, middle, high = later
    goes_on = np.array([np.minimum(low, middle), middle, np.maximum(high, middle)])
    starts, finishes = np.where(waits, begins, start), np.where(waits, ends, np.where(runs, goes_on, finish))
    columns = {f"start_{end}": values for end, values in zip(_ENDS, starts, strict=True)}
    return replace(table, **columns, **{f"finish_{end}": values for end, values in zip(_ENDS, finishes, strict=True)})


def _apart(three: FloatArray, least_s: FloatArray) -> FloatArray:
    """Put low end, middle and high end in that order, none of them before *least_s*."""
    low, middle, high = three
    return np.array(
        [np.maximum(least_s, np.minimum(low, middle - LEAST_S)), middle, np.maximum(high, middle + LEAST_S)]
    )
