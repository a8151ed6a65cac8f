"""The workloads of a search: samples of one half of a trace for the search, of the other half for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..elastic.applications import Applications
from ..elastic.experiment import replay
from ..elastic.samples import Split, sample, windows
from .beside_slurm import BesideSlurm
from .measurement import Bench, Executor
from .objectives import Objective
from .search import EXTREMES, POPULATION, Search
from .space import SearchSpace

Samples = tuple[Applications, ...]

_HELD_OUT = 1_000_000  #: added to the seeds of validation samples


@dataclass(frozen=True)
class SearchSpec:
    """The parameters of a search and of its samples."""

    objectives: tuple[Objective, ...]
    gpus: int
    load: float | None = None  #: of each sample, whose jobs then arrive at random; None for windows as they arrived
    jobs: int = 300  #: in each sample, at most
    samples: int = 5  #: for the search, and as many for validation
    evaluations: int = 4000
    delta: float | None = None  #: None to search it too
    seed: int = 0
    population: int = POPULATION


def search_on(
    apps: Applications, wish: SearchSpec, beside: BesideSlurm | None = None
) -> tuple[Search, Mapping[str, object]]:
    """Build the search for *wish* on *apps*, and the values that identify it.

    *beside* replays *apps*, which are rigid then, beside the modelled slurmctld; by default they are elastic.
    """
    train, test = (_windows if wish.load is None else _drawn)(apps, wish)
    sizes = np.concatenate([one.service_s for one in train])
    executor: Executor = replay if beside is None else beside
    extremes = EXTREMES if beside is None else beside.extremes
    search = Search(
        SearchSpace.of(sizes, wish.delta, rigid=beside is not None),
        Bench(train, wish.gpus, wish.objectives, executor),
        Bench(test, wish.gpus, wish.objectives, executor),
        wish.evaluations,
        wish.seed,
        wish.population,
        extremes,
    )
    settings = {
        "objectives": [objective.name for objective in wish.objectives],
        "gpus": wish.gpus,
        "load": wish.load,
        "jobs": wish.jobs,
        "samples": wish.samples,
        "delta": wish.delta,
        "seed": wish.seed,
        "population": wish.population,
        "trace": _digest((apps.service_s, apps.demand, apps.curve, apps.curves.speed)),
        "beside": None if beside is None else beside.digest,
    }
    return search, settings


def _windows(apps: Applications, wish: SearchSpec) -> tuple[Samples, Samples]:
    """Return contiguous windows of the trace as they arrived, to search by and to judge by.

    Of two windows of about the same load one at random is for the search: the load decides what a setting is worth.
    """
    every = windows(apps, 2 * wish.samples, wish.jobs)
    every.sort(key=lambda window: window.load(wish.gpus))
    first = np.random.default_rng(wish.seed).integers(0, 2, wish.samples).tolist()
    pairs = [(every[2 * at + one], every[2 * at + 1 - one]) for at, one in enumerate(first)]
    return tuple(train for train, _ in pairs), tuple(test for _, test in pairs)


def _drawn(apps: Applications, wish: SearchSpec) -> tuple[Samples, Samples]:
    """Return jobs drawn from either half of the trace, which arrive at random."""
    assert wish.load is not None
    halves = Split.of(len(apps), wish.seed)

    def samples(rows: IntArray, seed: int) -> Samples:
        return tuple(sample(apps, rows, wish.jobs, wish.gpus, load, seed + at) for at in range(wish.samples))

    load = wish.load
    return samples(halves.train, wish.seed), samples(halves.test, wish.seed + _HELD_OUT)


def _digest(columns: Sequence[FloatArray | IntArray]) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()[:16]
