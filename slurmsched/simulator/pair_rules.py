"""The rules of pairs on a cluster that carries plans out as they are, and the measurements that they rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray
from ..decide.rules import SharingRules
from ..models.sharing.sharing_model import GpuUse
from ..models.sharing.speed_curve import SpeedCurve
from ..policies.sharing_candidates import EAGER
from .cluster_spec import Sharing
from .workload.workload import Workload

GPU_MIB = 24576.0  #: of the GPUs on which Lucid's authors measured
MEMORY_SHARE = 0.95  #: of a GPU's memory that two jobs may use together


def pair_rules(rule: str, *, wide: bool = False, curve: SpeedCurve | None = None) -> SharingRules | None:
    """Return the rules by which *rule* pairs jobs; None where it makes no pairs.

    Jobs of all users share, on any node, and at once; any two but two Jumbos. The speed *curve* is that of the pairs
    measured on the cluster, if any.
    """
    memory_mib = MEMORY_SHARE * GPU_MIB
    rules = SharingRules(capacity=EAGER, memory_mib=memory_mib, other_users=True, rule=rule, wide=wide)
    return everywhere(rules, curve)


def everywhere(rules: SharingRules | None, curve: SpeedCurve | None) -> SharingRules | None:
    """Return *rules* for pairs on any node, made at once; None where they make no pairs."""
    if rules is None or not rules.makes_pairs:
        return None
    return replace(rules, partition="", wait_s=0.0, curve=rules.curve if curve is None else curve.knots())


def use_of(jobs: Workload, names: tuple[str, ...]) -> GpuUse:
    """Return the GPU use of jobs of each name, mean over those of *jobs* that were measured; NaN where none was."""
    number = {name: at for at, name in enumerate(names)}
    place = jobs.program.map([number.get(name, -1) for name in jobs.program.names], np.int64)

    def mean(column: FloatArray) -> FloatArray:
        usable = (place >= 0) & ~np.isnan(column)
        count = np.bincount(place[usable], minlength=len(names))
        total = np.bincount(place[usable], column[usable], minlength=len(names))
        each: FloatArray = np.divide(total, count, out=np.full(len(names), np.nan), where=count > 0)
        return each

    amp = mean(jobs.amp.astype(np.float64))
    return GpuUse(mean(jobs.gpu_util), mean(jobs.memory_util), mean(jobs.gpu_memory_mib), amp)


def curve_of(sharing: Sharing, use: GpuUse) -> SpeedCurve | None:
    """Return the curve of a table of measured pairs; None where no pair has both its speeds and utilisations."""
    sums = use.gpu_util[:, None] + use.gpu_util[None, :]
    usable = (sharing.speeds > 0) & (sharing.speeds.T > 0) & np.isfinite(sums)
    return SpeedCurve.fit(sums[usable], sharing.speeds[usable]) if usable.any() else None
