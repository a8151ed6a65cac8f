"""Schedulers by name, on one footing: the same rounds, the same cost of stopping, the same knowledge."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...policies.leases.solver import Guarded
from ..workload import Workload
from . import baselines
from .chronus import Chronus
from .figures import Figures, Promises, figures, promises
from .rounds import RoundPolicy, play
from .threesigma import ThreeSigma
from .world import Rules, World, world_of

_NEVER_PROMISE: dict[str, Callable[[Guarded | None], RoundPolicy]] = {
    "edf": lambda _: baselines.ByKey(baselines.edf),
    "yarn-cs": lambda _: baselines.Quota(),
    "tiresias": lambda _: baselines.ByKey(baselines.tiresias),
    "themis": lambda _: baselines.ByKey(baselines.themis),
    "genie": lambda _: baselines.ByKey(baselines.genie),
    "3sigma": ThreeSigma,
    "srtf": lambda _: baselines.ByKey(baselines.srtf),
}

NAMES = ("chronus", *_NEVER_PROMISE)


class Outcome(NamedTuple):
    """What a scheduler made of some jobs."""

    world: World
    figures: Figures
    promises: Promises | None  #: of a scheduler that makes any


def replay(
    jobs: Workload,
    gpus: int,
    name: str = "chronus",
    rules: Rules | None = None,
    planned_s: FloatArray | None = None,
    solver: Guarded | None = None,
) -> Outcome:
    """*jobs* that ask for GPUs under the scheduler *name*, on *gpus* GPUs; plans know *planned_s*, or the truth.

    ConfigError where the name is unknown.
    """
    world = world_of(jobs.take(jobs.gpus > 0), gpus, rules or Rules(), _with_gpus(jobs, planned_s))
    if name == "chronus":
        chronus = Chronus(world, solver)
        play(world, chronus)
        return Outcome(world, figures(world), promises(world, chronus))
    if name not in _NEVER_PROMISE:
        raise ConfigError(f"no scheduler {name!r} for leases: accepted are {', '.join(NAMES)}")
    play(world, _NEVER_PROMISE[name](solver))
    return Outcome(world, figures(world), None)


def misjudged(runtime_s: FloatArray, error: float, seed: int, quantile: float = 1.2816) -> FloatArray:
    """What plans would count on if runtimes were estimated with a relative Gaussian *error*, with a margin.

    The margin covers the truth with the probability of *quantile*, in standard deviations (1.2816: 90 %).
    """
    noise = 1.0 + error * np.random.default_rng(seed).standard_normal(len(runtime_s))
    margin = 1.0 / max(0.1, 1.0 - quantile * error)
    planned: FloatArray = runtime_s * np.maximum(noise, 0.05) * margin
    return planned


def _with_gpus(jobs: Workload, planned_s: FloatArray | None) -> FloatArray | None:
    return None if planned_s is None else planned_s[jobs.gpus > 0]
