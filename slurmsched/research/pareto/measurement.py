"""Measurements of settings: each is replayed on every sample, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray
from ...simulator.worker_pool import Spread, Workers, crew
from ..elastic.applications import Applications
from ..elastic.experiment import Policy, replay
from .objectives import Objective


@dataclass(frozen=True, eq=False)
class Bench:
    """The samples and objectives by which policies are measured."""

    samples: tuple[Applications, ...]
    gpus: int
    objectives: tuple[Objective, ...]

    def measure(self, policy: Policy) -> list[float]:
        """Return the mean over the samples of each objective."""
        replays = [replay(apps, self.gpus, policy) for apps in self.samples]
        return [float(np.mean([objective(one) for one in replays])) for objective in self.objectives]


Measure = Callable[[Bench, Sequence[Policy], Callable[[], None]], FloatArray]
"""Values of policies on a bench, one row each; the last argument is called after each measurement."""


@contextmanager
def measuring(workers: Workers | None) -> Iterator[Measure]:
    """Provide a reusable function that measures policies; without *workers*, in this process."""
    with crew(workers) as spread:
        yield partial(_measured, spread)


def _measured(spread: Spread, bench: Bench, policies: Sequence[Policy], advance: Callable[[], None]) -> FloatArray:
    values: list[list[float]] = [[]] * len(policies)
    for place, measured in spread(bench.measure, policies):
        values[place] = measured
        advance()
    return np.array(values)
