"""Candidates for sharing GPUs, the admin's limits on pairs of them, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table

OFF, APATHETIC, INDOLENT = 0, 1, 2
"""Modes: the largest sum of share scores on a GPU (the paper's G_SS); OFF disables sharing."""


@dataclass(frozen=True, eq=False)
class Sharers(Table):
    """Candidates for sharing GPUs, as columns. NaN means unknown."""

    job_id: IntArray
    user: Labels
    kind: Labels  #: the kind of the job, such as USER/NAME-PATTERN; a pair of kinds that failed is barred
    gpus: IntArray
    nodes: IntArray
    score: IntArray  #: 0 tiny, 1 medium, 2 jumbo
    memory_mib: FloatArray  #: peak use of each GPU; NaN if it was never measured
    speed: FloatArray  #: 0..1, lower estimate of its relative speed beside another job; NaN counts as ``slowest``
    left_s: FloatArray  #: forecast seconds until it ends alone on its GPUs
    measured: BoolArray  #: it, or an earlier run of its kind, was profiled
    unstable: BoolArray  #: its utilisation was not steady
    barred: BoolArray  #: by its owner (``nopack``, ``off``), interactive, or asking for whole nodes


@dataclass(frozen=True)
class PackingLimits:
    """The admin's limits on sharing."""

    capacity: int = INDOLENT  #: a mode
    memory_mib: float = 0.0  #: GPU memory that two jobs may use together, below that of the GPU
    other_users: bool = False  #: jobs of different users too; they take turns without MPS
    slowest: float = 0.85  #: 0..1, the speed assumed of a job beside another if it is unknown
    failed: frozenset[frozenset[str]] = (
        frozenset()
    )  #: pairs of kinds; a kind that failed beside its like, or is here alone, shares with none


class Pair(NamedTuple):
    """A waiting job, the running one it joins, and the reduction of the sum of their completion times."""

    guest: int
    host: int
    gain_s: float
