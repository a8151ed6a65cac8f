"""What a policy believes of pairs, from their profiles alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray
from ...models.ebm.additive import isotonic
from ...models.sharing.sharing_model import GpuUse, SharingModel
from ..cluster_spec import Sharing
from ..workload.workload import Workload

GPU_MIB = 24576.0  #: of the GPUs on which Lucid's authors measured
MEMORY_SHARE = 0.95  #: of a GPU's memory that two jobs may use together
MOST_SCORE = 3  #: two Jumbos are never paired


@dataclass(frozen=True, eq=False)
class SpeedCurve:
    """What a job keeps of its speed beside another, by the sum of the two GPU utilisations; it never rises."""

    sums: FloatArray
    speeds: FloatArray

    @classmethod
    def fit(cls, sums: FloatArray, speeds: FloatArray) -> Self:
        """The curve closest to measured *speeds* (isotonic regression); ValueError without any."""
        if not len(sums):
            raise ValueError("a speed curve needs measured pairs")
        order = np.argsort(sums, kind="stable")
        return cls(sums[order], -isotonic(-speeds[order], np.ones(len(order))))

    def speed(self, sums: FloatArray) -> FloatArray:
        """The speed at each sum, linear between measured ones; 0 where a utilisation was not measured."""
        interpolated: FloatArray = np.interp(sums, self.sums, self.speeds)
        speed: FloatArray = np.where(np.isfinite(sums), interpolated, 0.0)
        return speed


def use_of(jobs: Workload, names: tuple[str, ...]) -> GpuUse:
    """What jobs of each name do with a GPU, mean over those of *jobs* that were measured; NaN where none was."""
    kinds = jobs.work if any(jobs.work.names) else jobs.name
    number = {name: at for at, name in enumerate(names)}
    place = kinds.map([number.get(name, -1) for name in kinds.names], np.int64)

    def mean(column: FloatArray) -> FloatArray:
        usable = (place >= 0) & ~np.isnan(column)
        count = np.bincount(place[usable], minlength=len(names))
        total = np.bincount(place[usable], column[usable], minlength=len(names))
        each: FloatArray = np.divide(total, count, out=np.full(len(names), np.nan), where=count > 0)
        return each

    amp = mean(jobs.amp.astype(np.float64))
    return GpuUse(mean(jobs.gpu_util), mean(jobs.memory_util), mean(jobs.gpu_memory_mib), amp)


def curve_of(sharing: Sharing, use: GpuUse) -> SpeedCurve:
    """The curve of a table of measured pairs."""
    sums = use.gpu_util[:, None] + use.gpu_util[None, :]
    usable = (sharing.speeds > 0) & (sharing.speeds.T > 0) & np.isfinite(sums)
    return SpeedCurve.fit(sums[usable], sharing.speeds[usable])


def believed(
    use: GpuUse,
    curve: SpeedCurve,
    scores: SharingModel | None = None,
    *,
    most_score: int = MOST_SCORE,
    gpu_mib: float = GPU_MIB,
) -> FloatArray:
    """[row, row]: what one of *use* keeps beside another; 0 where they may not share.

    That is where their memory may not fit or was not measured, and where the sum of their share *scores* is above
    *most_score*.
    """
    speeds = curve.speed(use.gpu_util[:, None] + use.gpu_util[None, :])
    with np.errstate(invalid="ignore"):
        fits = use.memory_mib[:, None] + use.memory_mib[None, :] <= MEMORY_SHARE * gpu_mib
    if scores is not None:
        score = scores.score(use)
        fits &= score[:, None] + score[None, :] <= most_score
    return np.where(fits, speeds, 0.0)
