"""Schedulers by name, on one footing: the same rounds, the same cost of stopping, the same knowledge."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...policies.deadlines.gpu_blocks import rounded_up
from ...policies.deadlines.milp_solver import Guarded
from ..workload.workload import Workload
from . import baselines
from .chronus import Chronus
from .figures import Figures, Promises, figures, promises
from .nodes import Nodes
from .profiling import Profiling
from .rounds import RoundPolicy, play
from .terms import Terms
from .threesigma import ThreeSigma
from .world import LeaseRules, LeaseState, RuntimeEstimates, profiled, world_of

_DECILE = 1.2816

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

    world: LeaseState
    figures: Figures
    promises: Promises | None  #: of a scheduler that makes any


def replay(
    jobs: Workload,
    gpus: int,
    name: str = "chronus",
    rules: LeaseRules | None = None,
    estimates: RuntimeEstimates | None = None,
    solver: Guarded | None = None,
    terms: Terms | None = None,
    node_gpus: int | None = None,
    profiling: Profiling | None = None,
) -> Outcome:
    """*jobs* that ask for GPUs under the scheduler *name*, on *gpus* GPUs; plans know the *estimates*, or the truth.

    *terms* are those of ``chronus``. With *node_gpus* there are nodes of so many GPUs: jobs with deadlines ask for a
    power of two or whole nodes and get them in blocks. With *profiling* each job is profiled first. ConfigError where
    the name is unknown.
    """
    jobs, estimates = jobs.take(jobs.gpus > 0), _with_gpus(jobs, estimates)
    nodes = None if node_gpus is None else Nodes(gpus // node_gpus, node_gpus)
    world = world_of(jobs, gpus if nodes is None else gpus // nodes.gpus * nodes.gpus, rules or LeaseRules(), estimates)
    if nodes is not None:
        world.gpus = np.where(world.slo, rounded_up(world.gpus, nodes.gpus), world.gpus)
    if profiling is not None:
        world = profiled(world, profiling)
    if name == "chronus":
        chronus = Chronus(world, solver, terms or Terms())
        play(world, chronus, nodes)
        return Outcome(world, figures(world), promises(world, chronus))
    if name not in _NEVER_PROMISE:
        raise ConfigError(f"no scheduler {name!r} for leases: accepted are {', '.join(NAMES)}")
    play(world, _NEVER_PROMISE[name](solver), nodes)
    return Outcome(world, figures(world), None)


def misjudged(runtime_s: FloatArray, error: float, seed: int) -> RuntimeEstimates:
    """What would be forecast if runtimes were estimated with a relative Gaussian *error*.

    The upper decile covers the truth of nine in ten jobs.
    """
    noise = 1.0 + error * np.random.default_rng(seed).standard_normal(len(runtime_s))
    median_s: FloatArray = runtime_s * np.maximum(noise, 0.05)
    return RuntimeEstimates(median_s, median_s / max(0.1, 1.0 - _DECILE * error))


def _with_gpus(jobs: Workload, estimates: RuntimeEstimates | None) -> RuntimeEstimates | None:
    return None if estimates is None else RuntimeEstimates(*(column[jobs.gpus > 0] for column in estimates))
