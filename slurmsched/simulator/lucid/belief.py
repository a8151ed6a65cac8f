"""What a policy believes of pairs, from their profiles alone."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray
from ...models.sharing.sharing_model import GpuUse, SharingModel
from ...models.sharing.speed_curve import SpeedCurve
from ..pair_rules import GPU_MIB, MEMORY_SHARE

MOST_SCORE = 3  #: two Jumbos are never paired


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
