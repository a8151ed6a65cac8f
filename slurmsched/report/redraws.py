"""Intervals of means over hours, by redraws of blocks of these."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import FloatArray

BLOCK = 6  #: hours that are redrawn together: the queue of one hour is much like that of the next
DRAWS = 1000
LEAST_HOURS = 12  #: of an account, below which there is no interval


def interval(totals: FloatArray, jobs: FloatArray) -> tuple[float, float]:
    """Return the interval of 90 % of redraws of the mean of *totals* over *jobs*, by hours in order.

    Whole blocks of hours are redrawn (Kuensch 1989). NaN for fewer than LEAST_HOURS. The same input gives the same.
    """
    hours = len(totals)
    if hours < LEAST_HOURS:
        return np.nan, np.nan
    blocks = -(-hours // BLOCK)
    first = np.random.default_rng(0).integers(0, hours, (DRAWS, blocks))
    rows = ((first[:, :, None] + np.arange(BLOCK)) % hours).reshape(DRAWS, -1)[:, :hours]
    means = totals[rows].sum(axis=1) / np.maximum(jobs[rows].sum(axis=1), 1e-9)
    low, high = np.percentile(means, (5, 95))
    return float(low), float(high)
