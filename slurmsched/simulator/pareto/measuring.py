"""Measuring settings: each is replayed on every sample, here or in other processes."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ..elastic.applications import Applications
from ..elastic.experiment import Policy, replay
from ..sweep import BACKENDS, RunFailed, Workers, _client, _needed
from .objectives import Objective


@dataclass(frozen=True, eq=False)
class Bench:
    """What policies are measured on, and by what."""

    samples: tuple[Applications, ...]
    gpus: int
    objectives: tuple[Objective, ...]

    def measure(self, policy: Policy) -> list[float]:
        """The mean over the samples of each objective."""
        played = [replay(apps, self.gpus, policy) for apps in self.samples]
        return [float(np.mean([objective(one) for one in played])) for objective in self.objectives]


Measure = Callable[[Bench, Sequence[Policy], Callable[[], None]], FloatArray]
"""Values of policies on a bench, a row each; the last argument is called whenever one of them is measured."""


@contextmanager
def measuring(workers: Workers | None) -> Iterator[Measure]:
    """A way to measure policies that may be used again and again; without *workers* in this process."""
    if workers is None:
        yield lambda bench, policies, told: _gathered(len(policies), _here(bench, policies), told)
    elif workers.backend == "loky":
        yield lambda bench, policies, told: _gathered(len(policies), _loky(bench, policies, workers), told)
    elif workers.backend == "dask":
        distributed = _needed("distributed")
        logging.getLogger("distributed").setLevel(logging.WARNING)  # it sets itself to INFO on import
        with _client(distributed, workers) as client:
            yield lambda bench, policies, told: _gathered(
                len(policies), _dask(distributed, client, bench, policies), told
            )
    else:
        raise ConfigError(f"backend {workers.backend!r} is not known; there are: {', '.join(BACKENDS)}")


Found = Iterator[tuple[int, list[float]]]


def _gathered(count: int, found: Found, told: Callable[[], None]) -> FloatArray:
    values: list[list[float]] = [[]] * count
    for place, measured in found:
        values[place] = measured
        told()
    return np.array(values)


def _here(bench: Bench, policies: Sequence[Policy]) -> Found:
    for place, policy in enumerate(policies):
        yield _placed(bench, place, policy)


def _loky(bench: Bench, policies: Sequence[Policy], workers: Workers) -> Found:
    joblib = _needed("joblib")
    executor = importlib.import_module("joblib.externals.loky.process_executor")
    parallel = joblib.Parallel(workers.number or -1, "loky", return_as="generator_unordered", batch_size=1)
    made = parallel(joblib.delayed(_placed)(bench, place, policy) for place, policy in enumerate(policies))
    try:
        for measured in made:  # noqa: UP028  a delegated generator would be closed before the warning is silenced
            yield measured
    except executor.TerminatedWorkerError as error:
        raise RunFailed("a process that measured died, perhaps for want of memory: try fewer --workers") from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # says that it ends what still runs, as it is to
            made.close()


def _dask(distributed: Any, client: Any, bench: Bench, policies: Sequence[Policy]) -> Found:
    futures = [client.submit(_placed, bench, place, policy, pure=False) for place, policy in enumerate(policies)]
    for future in distributed.as_completed(futures):
        try:
            yield future.result()
        except distributed.KilledWorker as error:
            raise RunFailed("Dask workers that measured died, perhaps for want of memory") from error


def _placed(bench: Bench, place: int, policy: Policy) -> tuple[int, list[float]]:
    return place, bench.measure(policy)
