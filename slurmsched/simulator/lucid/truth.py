"""What is true of pairs that nobody measured: an assumption that lets a simulation go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray
from ..cluster_spec import Sharing

NEAREST = 5  #: measured pairs that stand for one that was not


def completed(sharing: Sharing, gpu_util: FloatArray) -> Sharing:
    """The same table without gaps: a pair that was not measured runs at the mean speeds of the NEAREST measured ones.

    Near is who has the least sum of differences of the two *gpu_util* (0..1, one for each name); ties go to the first
    in the table. ValueError where no pair was measured, or a utilisation is not finite.
    """
    speeds = sharing.speeds.copy()
    measured = (speeds > 0) & (speeds.T > 0)
    firsts, seconds = np.nonzero(measured)
    if not len(firsts) or not np.isfinite(gpu_util).all():
        raise ValueError("gaps are filled from measured pairs and known GPU utilisations")
    for one, other in np.argwhere(~measured).tolist():
        far = np.abs(gpu_util[firsts] - gpu_util[one]) + np.abs(gpu_util[seconds] - gpu_util[other])
        near = np.argsort(far, kind="stable")[:NEAREST]
        speeds[one, other] = sharing.speeds[firsts[near], seconds[near]].mean()
    return replace(sharing, speeds=speeds)
