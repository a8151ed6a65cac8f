"""Preemption: the running jobs that yield to promised jobs, and to jobs earlier in the order. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Table
from ..cluster.ties import in_ms
from ..errors import ConfigError
from .contract import PREEMPTIONS, Preemption, preemption

TRIED = 32
"""Maximum number of selected jobs that are tried to be spared again, those with the largest loss first."""


@dataclass(frozen=True, eq=False)
class Yielders(Table):
    """Running jobs that may be stopped, as columns."""

    job_id: IntArray
    lost_gpu_s: FloatArray  #: what stopping it loses: GPU-seconds of this run so far, or its place in the order
    awaited: BoolArray  #: was asked to stop already


Late = Callable[[IntArray], int]
"""A function that counts the jobs that start too late if these rows of the yielders stop now."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@preemption("least-loss")
def least_loss(jobs: Yielders, late: Late) -> IntArray:
    """The fewest jobs that make room for all promises that can be kept, those that lose least first."""
    rows = np.lexsort((jobs.job_id, in_ms(jobs.lost_gpu_s), ~jobs.awaited))
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


@preemption("never")
def never(jobs: Yielders, late: Late) -> IntArray:
    """No running job yields."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Lease:
    """The choice of ``least-loss``, for jobs earlier in the order too once a running job has had its lease."""

    lease_s: float = 1_200.0

    def __call__(self, jobs: Yielders, late: Late) -> IntArray:
        """Return the rows that yield."""
        return least_loss(jobs, late)


def _lease(settings: Mapping[str, str]) -> Lease:
    """Return the lease in *settings*; ConfigError unless it is one time above 0."""
    found = re.fullmatch(r"(\d{1,6})([smhd]?)", settings.get("time", ""))
    lease_s = int(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
    if set(settings) != {"time"} or not lease_s:
        raise ConfigError(
            "preemption lease: accepted is lease TIME, a whole number with s, m, h or d such as lease 20m"
        )
    return Lease(lease_s)


PREEMPTIONS.add(
    Preemption(
        "lease",
        Lease(),
        "Jobs that had their lease yield to jobs earlier in the order, those that are last in it first.",
        tuned=_lease,
        defaults="time=20m",
        bare="time",
        powers=frozenset({"order", "requeue"}),
    )
)
