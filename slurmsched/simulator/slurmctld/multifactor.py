"""Slurm's multifactor priority (priority/multifactor), in loops that compile.

Age, fair share, job size and QOS, each a factor of 0 to 1 times its weight, and the fixed points of a job.
"""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import entry
from .fair_share import Usage


class Weights(NamedTuple):
    """The PriorityWeight* parameters and their time constants (slurm.conf(5))."""

    age: float = 1000.0
    max_age_s: float = 604800.0
    fair_share: float = 10000.0
    half_life_s: float = 604800.0
    size: float = 1000.0
    qos: float = 1000.0
    fair_tree: bool = False  #: else the classic formula
    dampening: float = 1.0  #: of the classic formula (FairShareDampeningFactor)


class Factors(NamedTuple):
    """The constant factors of a job's priority."""

    qos: FloatArray  #: 0..1
    width: FloatArray  #: 0..1, the share of the cluster it requests
    fixed: FloatArray  #: points of its partition, its resources and its association
    offset: IntArray  #: difference of a real Slurm's priority from the modelled one


@entry
def base_priority(usage: Usage, weights: Weights, factors: Factors, row: int, waited_s: float) -> int:
    """Return a job's priority without our points and without nice."""
    fair = usage.shares.fair[usage.of_job[row]]
    age = min(1.0, waited_s / weights.max_age_s)
    points = weights.age * age + weights.fair_share * fair + weights.size * factors.width[row]
    points += weights.qos * factors.qos[row] + factors.fixed[row]
    return int(max(1, int(points) + factors.offset[row]))
