"""Slurm's multifactor priority (priority/multifactor), in loops that compile.

Age, fair share, job size and QOS, each a factor of 0 to 1 times its weight. Fair share is the classic 2^(-usage/share)
over users with equal shares, usage being decayed GPU-seconds (CPU-seconds of jobs without GPUs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled
from ...policies.selection.struct_arrays import writable


class Weights(NamedTuple):
    """The PriorityWeight* parameters and their time constants (slurm.conf(5))."""

    age: float = 1000.0
    max_age_s: float = 604800.0
    fair_share: float = 10000.0
    half_life_s: float = 604800.0
    size: float = 1000.0
    qos: float = 1000.0


class UserUsage(NamedTuple):
    """The usage of users, decayed up to a time."""

    user: IntArray  #: of each job
    used_s: FloatArray  #: GPU-seconds per user
    fair: FloatArray  #: the resulting fair share of each user, 0..1
    until_s: FloatArray  #: one time


class Factors(NamedTuple):
    """The constant factors of a job's priority."""

    qos: FloatArray  #: 0..1
    width: FloatArray  #: 0..1, the share of the cluster it requests
    offset: IntArray  #: difference of a real Slurm's priority from the modelled one


def unused(user: IntArray, users: int, since_s: float = 0.0) -> UserUsage:
    """Return the usage before any job has run, which is *since_s*; without a time, 0."""
    until_s = np.full(1, since_s if np.isfinite(since_s) else 0.0)
    return writable(UserUsage(user, np.zeros(users), np.ones(users), until_s))


@compiled
def accrue(usage: UserUsage, weights: Weights, rows: IntArray, gpus: IntArray, cpus: IntArray, now_s: float) -> None:
    """Advance the usage to *now_s*: it decays, and the running jobs *rows* add to it."""
    passed_s = now_s - usage.until_s[0]
    usage.until_s[0] = now_s
    if passed_s <= 0:
        return
    usage.used_s[:] *= 0.5 ** (passed_s / weights.half_life_s)
    for row in rows:
        usage.used_s[usage.user[row]] += passed_s * (gpus[row] if gpus[row] else cpus[row])
    share_out(usage)


@compiled
def share_out(usage: UserUsage) -> None:
    """Compute the fair share of each user from the usage."""
    total_s = usage.used_s.sum()
    for user in range(len(usage.used_s)):
        used = usage.used_s[user] / total_s if total_s > 0 else 0.0
        usage.fair[user] = 2.0 ** (-used * len(usage.used_s))


@compiled
def base_priority(usage: UserUsage, weights: Weights, factors: Factors, row: int, waited_s: float) -> int:
    """Return a job's priority without our points and without nice."""
    fair = usage.fair[usage.user[row]]
    age = min(1.0, waited_s / weights.max_age_s)
    points = weights.age * age + weights.fair_share * fair + weights.size * factors.width[row]
    return int(max(1, int(points + weights.qos * factors.qos[row]) + factors.offset[row]))
