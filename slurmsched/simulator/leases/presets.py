"""Chronus in rounds: one pool or nodes, with or without profiling, by what is forecast of runtimes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray
from ...policies.deadlines.gpu_blocks import rounded_up
from ...policies.deadlines.milp_solver import Guarded
from ..workload.workload import Workload
from .chronus import Chronus
from .figures import Figures, Promises, figures, promises
from .nodes import Nodes
from .profiling import Profiling
from .rounds import play
from .terms import Terms
from .world import LeaseRules, LeaseState, RuntimeEstimates, profiled, world_of

_DECILE = 1.2816


class Outcome(NamedTuple):
    """What Chronus made of some jobs."""

    world: LeaseState
    figures: Figures
    promises: Promises


def replay(
    jobs: Workload,
    gpus: int,
    rules: LeaseRules | None = None,
    estimates: RuntimeEstimates | None = None,
    solver: Guarded | None = None,
    terms: Terms | None = None,
    node_gpus: int | None = None,
    profiling: Profiling | None = None,
) -> Outcome:
    """*jobs* that ask for GPUs, on *gpus* GPUs; plans know the *estimates*, or the truth.

    With *node_gpus* there are nodes of so many GPUs: jobs with deadlines ask for a power of two or whole nodes and get
    them in blocks. With *profiling* each job is profiled first.
    """
    jobs, estimates = jobs.take(jobs.gpus > 0), _with_gpus(jobs, estimates)
    nodes = None if node_gpus is None else Nodes(gpus // node_gpus, node_gpus)
    world = world_of(jobs, gpus if nodes is None else gpus // nodes.gpus * nodes.gpus, rules or LeaseRules(), estimates)
    if nodes is not None:
        world.gpus = np.where(world.slo, rounded_up(world.gpus, nodes.gpus), world.gpus)
    if profiling is not None:
        world = profiled(world, profiling)
    chronus = Chronus(world, solver, terms or Terms())
    play(world, chronus, nodes)
    return Outcome(world, figures(world), promises(world, chronus))


def misjudged(runtime_s: FloatArray, error: float, seed: int) -> RuntimeEstimates:
    """What would be forecast if runtimes were estimated with a relative Gaussian *error*.

    The upper decile covers the truth of nine in ten jobs.
    """
    noise = 1.0 + error * np.random.default_rng(seed).standard_normal(len(runtime_s))
    median_s: FloatArray = runtime_s * np.maximum(noise, 0.05)
    return RuntimeEstimates(median_s, median_s / max(0.1, 1.0 - _DECILE * error))


def _with_gpus(jobs: Workload, estimates: RuntimeEstimates | None) -> RuntimeEstimates | None:
    return None if estimates is None else RuntimeEstimates(*(column[jobs.gpus > 0] for column in estimates))
