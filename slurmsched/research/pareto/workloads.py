"""The workloads of a search: samples of one half of a trace for the search, of the other half for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..elastic.applications import Applications
from ..elastic.samples import Split, sample
from .measurement import Bench
from .objectives import Objective
from .search import POPULATION, Search
from .space import SearchSpace

_HELD_OUT = 1_000_000  #: added to the seeds of validation samples


@dataclass(frozen=True)
class SearchSpec:
    """The parameters of a search and of its samples."""

    objectives: tuple[Objective, ...]
    gpus: int
    load: float  #: of each sample
    jobs: int = 1000  #: in each sample
    samples: int = 5  #: for the search, and as many for validation
    evaluations: int = 1000
    delta: float | None = None  #: None to search it too
    seed: int = 0
    population: int = POPULATION


def search_on(apps: Applications, wish: SearchSpec) -> tuple[Search, Mapping[str, object]]:
    """Build the search for *wish* on *apps*, and the values that identify it."""
    halves = Split.of(len(apps), wish.seed)
    search = Search(
        SearchSpace.of(apps.service_s[halves.train], wish.delta),
        Bench(_samples(apps, halves.train, wish, wish.seed), wish.gpus, wish.objectives),
        Bench(_samples(apps, halves.test, wish, wish.seed + _HELD_OUT), wish.gpus, wish.objectives),
        wish.evaluations,
        wish.seed,
        wish.population,
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
    }
    return search, settings


def _samples(apps: Applications, rows: IntArray, wish: SearchSpec, seed: int) -> tuple[Applications, ...]:
    return tuple(sample(apps, rows, wish.jobs, wish.gpus, wish.load, seed + at) for at in range(wish.samples))


def _digest(columns: Sequence[FloatArray | IntArray]) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()[:16]
