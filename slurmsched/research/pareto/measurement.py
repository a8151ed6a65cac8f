"""Measurements of settings: each is replayed on every sample, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray
from ...policies.ordering.wfq import Wfq
from ...simulator.worker_pool import Spread
from ..elastic.applications import Applications
from ..elastic.correction import Correction
from ..elastic.experiment import ElasticReplay, Policy, replay
from .objectives import Objective


@dataclass(frozen=True)
class Corrected:
    """A policy whose play-forwards are corrected."""

    policy: Policy
    correction: Correction


Executor = Callable[[Applications, int, Policy], ElasticReplay]
"""The replay of a sample on GPUs under a policy; picklable, since worker processes call it."""


@dataclass(frozen=True, eq=False)
class Bench:
    """The samples and objectives by which policies are measured."""

    samples: tuple[Applications, ...]
    gpus: int
    objectives: tuple[Objective, ...]
    executor: Executor = replay

    def measure(self, judged: Policy | Corrected) -> list[float]:
        """Return the mean over the samples of each objective."""
        if isinstance(judged, Corrected):
            return self._means([judged.correction(one) for one in self._replays(judged.policy)])
        return self._means(self._replays(judged))

    def cross_measure(self, policy: Policy) -> list[float]:
        """Return the same with predictions that are corrected, on each sample by what the others teach.

        A single sample has no others, and its predictions stay as they are.
        """
        return self._means(_crossed(self._replays(policy), _thresholds(policy)))

    def learn(self, policy: Policy) -> tuple[list[float], Correction]:
        """Return the values of ``cross_measure``, and the correction that all samples teach."""
        replays = self._replays(policy)
        return self._means(_crossed(replays, _thresholds(policy))), Correction.of(replays, _thresholds(policy))

    def _replays(self, policy: Policy) -> list[ElasticReplay]:
        return [self.executor(apps, self.gpus, policy) for apps in self.samples]

    def _means(self, replays: Sequence[ElasticReplay]) -> list[float]:
        return [float(np.mean([objective(one) for one in replays])) for objective in self.objectives]


def _thresholds(policy: Policy) -> tuple[float, ...]:
    return policy.thresholds if isinstance(policy, Wfq) else ()


def _crossed(replays: Sequence[ElasticReplay], thresholds: Sequence[float]) -> Sequence[ElasticReplay]:
    if len(replays) == 1:
        return replays
    return [Correction.of([*replays[:at], *replays[at + 1 :]], thresholds)(one) for at, one in enumerate(replays)]


Measure = Callable[[Bench, Sequence[Policy], Callable[[], None]], FloatArray]
"""Values of policies on a bench, one row each; the last argument is called after each measurement."""


def searched(spread: Spread) -> Measure:
    """Return the function that measures the policies of a search, where *spread* runs them."""
    return partial(_searched, spread)


def _searched(spread: Spread, bench: Bench, policies: Sequence[Policy], advance: Callable[[], None]) -> FloatArray:
    values: list[list[float]] = [[]] * len(policies)
    for place, measured in spread(bench.cross_measure, policies):
        values[place] = measured
        advance()
    return np.array(values)
