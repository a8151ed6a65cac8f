"""What a simulation of leases comes to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray
from .chronus import Chronus
from .world import LeaseState

_NOISE_S = 1e-3


class Figures(NamedTuple):
    """Over the jobs of a simulation; NaN where there are none of a kind."""

    weighted_miss: float  #: of the rewards for meeting first deadlines, the share not earned
    miss: float  #: share of the jobs with deadlines that missed the first
    jct_min: float  #: mean minutes from submit to end
    best_effort_jct_min: float
    stops: int


def figures(world: LeaseState) -> Figures:
    """The figures of a *world* at its end."""
    slo = world.slo
    earned = earned_share(world)
    jct_min = (world.end_s - world.submit_s) / 60.0
    return Figures(
        1.0 - float(np.sum(earned[slo])) / max(float(np.sum(world.worth[slo, 0])), 1e-12) if slo.any() else np.nan,
        float(np.mean(world.end_s[slo] > world.due_s[slo, 0] + _NOISE_S)) if slo.any() else np.nan,
        float(np.mean(jct_min)) if len(slo) else np.nan,
        float(np.mean(jct_min[~slo])) if (~slo).any() else np.nan,
        int(world.stops.sum()),
    )


def earned_share(world: LeaseState) -> FloatArray:
    """Of each job, the reward of the first step it met, 0 where none."""
    met = world.end_s[:, None] <= world.due_s + _NOISE_S
    earned: FloatArray = np.where(met, world.worth, 0.0).max(axis=1)
    return earned


class Promises(NamedTuple):
    """What became of promises."""

    guaranteed: int
    rejected: int  #: jobs with deadlines that were promised nothing
    broken: int  #: guaranteed, and ended later than promised
    announced: int  #: of the broken ones, announced with max(10 min, 10 % of the window) left at least
    alarms: int  #: announced, and kept all the same


def promises(world: LeaseState, policy: Chronus) -> Promises:
    """What *policy* promised in *world*, and kept."""
    given = np.flatnonzero(policy.promised >= 0)
    due_s, announced_s = world.due_s[given, policy.promised[given]], policy.announced_s[given]
    broken = world.end_s[given] > due_s + _NOISE_S
    least_s = np.maximum(600.0, 0.1 * (due_s - world.submit_s[given]))
    announced = np.isfinite(announced_s)
    return Promises(
        len(given),
        int(np.count_nonzero(world.slo)) - len(given),
        int(np.count_nonzero(broken)),
        int(np.count_nonzero(broken & (due_s - announced_s >= least_s))),
        int(np.count_nonzero(announced & ~broken)),
    )
