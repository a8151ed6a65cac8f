"""Candidates for sharing GPUs, the limits on pairs of them, and pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table

OFF, APATHETIC, INDOLENT, EAGER = 0, 1, 2, 3
"""Modes: the largest sum of share scores on a GPU (the paper's G_SS); OFF disables sharing, EAGER bars two Jumbos."""

CURVE_MARGIN = 0.02
"""How much more than ``least_speed`` the curve must expect of a pair.

Cross-validated by configuration on the 1,388 pairs behind the shipped curve: 97.7 % of the pairs that may share then
keep the default 0.8 as the mean, and 95.9 % without a margin.
"""

UNMEASURED_SPEED = 0.85
"""The speed that each of two jobs is taken to keep where no speed curve is known."""


@dataclass(frozen=True, eq=False)
class Sharers(Table):
    """Candidates for sharing GPUs, as columns. NaN means unknown."""

    job_id: IntArray
    user: Labels
    kind: Labels  #: the kind of the job, such as USER/NAME-PATTERN; a pair of kinds that failed is barred
    gpus: IntArray
    open_gpus: IntArray  #: its GPUs on which no second job runs
    nodes: IntArray
    score: IntArray  #: 0 tiny, 1 medium, 2 jumbo
    memory_mib: FloatArray  #: peak use of each GPU; NaN if it was never measured
    gpu_util: FloatArray  #: 0..1, mean of its GPUs alone; NaN counts as 1
    kept: FloatArray  #: the part of the speed by the curve that its kind was measured to keep; 1 where not measured
    speed: FloatArray  #: 0..1, relative to alone, beside the jobs that share its GPUs now; 1 alone
    left_s: FloatArray  #: forecast seconds until it ends alone on its GPUs
    measured: BoolArray  #: it, or an earlier run of its kind, was profiled
    unstable: BoolArray  #: its utilisation was not steady
    barred: BoolArray  #: by its owner (``nopack``, ``off``), interactive, or asking for whole nodes

    def with_guest(self, row: int, guests: Sharers, guest: int, packing: PackingLimits) -> Sharers:
        """Return the table in which the job in row *guest* of *guests* runs on GPUs of the job in *row*."""
        open_gpus, speed = self.open_gpus.copy(), self.speed.copy()
        open_gpus[row] -= guests.gpus[guest]
        beside = packing.pair_speed(self.gpu_util[row] + guests.gpu_util[guest])
        speed[row] = min(speed[row], beside * self.kept[row])
        return replace(self, open_gpus=open_gpus, speed=speed)


@dataclass(frozen=True)
class PackingLimits:
    """The admin's limits on sharing, and what pairs are weighed by."""

    capacity: int = INDOLENT  #: a mode
    memory_mib: float = 0.0  #: GPU memory that two jobs may use together, below that of the GPU
    other_users: bool = False  #: jobs of different users too; they take turns without MPS
    failed: frozenset[frozenset[str]] = (
        frozenset()
    )  #: pairs of kinds; a kind that failed beside its like, or is here alone, shares with none
    wide: bool = False  #: a job may join on some of the GPUs of a wider one
    curve: tuple[tuple[float, float], ...] = ((0.0, UNMEASURED_SPEED),)
    """Sums of the GPU utilisations of two jobs, rising, and the speed of each job beside the other; linear between."""
    least_speed: float = 0.3  #: no pair is made of which the mean of both speeds is less
    least_speed_each: float = 0.3  #: nor one in which a job would keep less
    demand: float = 0.0  #: jobs that wait per GPU of the cluster
    margin: float = 0.0  #: that the mean of the expected speeds must have above ``least_speed``, for the curve's error

    def pair_speed(self, util_sum: FloatArray) -> FloatArray:
        """Return the speed that each job of a pair keeps, by the sum of their GPU utilisations; NaN counts as 2."""
        sums, speeds = zip(*self.curve, strict=True)
        speed: FloatArray = np.interp(np.nan_to_num(util_sum, nan=2.0), sums, speeds)
        return speed

    def keeps_enough(self, first: FloatArray, second: FloatArray) -> BoolArray:
        """Select the pairs whose expected speeds *first* and *second* suffice: the mean of both, and each."""
        enough: BoolArray = (first + second) / 2.0 >= self.least_speed + self.margin
        return enough & (np.minimum(first, second) >= self.least_speed_each)


class Pair(NamedTuple):
    """A waiting job, the running one it joins, and the reduction of the sum of completion times."""

    guest: int
    host: int
    gain_s: float
