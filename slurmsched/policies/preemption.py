"""Preemption: the running jobs that yield to promised jobs that cannot start in time otherwise. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Table
from .contract import preemption

TRIED = 32
"""Maximum number of selected jobs that are tried to be spared again, those with the largest loss first."""


@dataclass(frozen=True, eq=False)
class Yielders(Table):
    """Running jobs that may be stopped, as columns."""

    job_id: IntArray
    lost_gpu_s: FloatArray  #: GPU-seconds of this run so far
    awaited: BoolArray  #: was asked to stop already


Late = Callable[[IntArray], int]
"""A function that counts the promised jobs that start too late if these rows of the yielders stop now."""


@preemption("least-loss")
def least_loss(jobs: Yielders, late: Late) -> IntArray:
    """The fewest jobs that make room for all promises that can be kept, those that lose least first."""
    rows = np.lexsort((jobs.job_id, jobs.lost_gpu_s, ~jobs.awaited))
    fewest = late(rows)
    if not len(rows) or fewest >= late(rows[:0]):
        return rows[:0]
    low, high = 1, len(rows)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if late(rows[:middle]) <= fewest else (middle + 1, high)
    rows = rows[:high]
    for row in rows[-2::-1][:TRIED].tolist():
        if late(rows[rows != row]) <= fewest:
            rows = rows[rows != row]
    return rows
