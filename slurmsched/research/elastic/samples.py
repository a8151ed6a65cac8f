"""Samples of a workload: applications drawn from those of a trace, and the AutoML workload of PCS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.text import plural
from ...errors import ConfigError
from .applications import Applications, Curves

MOST_TRIALS = 20
MOST_SERVICE_S = 7200.0
_MEDIAN_S = 1500.0
_SPREAD = 1.0  #: standard deviation of log work
_LEAST_S = 60.0


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of a workload in two parts at random: to search on, and to judge by."""

    train: IntArray
    test: IntArray

    @classmethod
    def of(cls, count: int, seed: int) -> Split:
        """Half of *count* rows each; ConfigError where there are too few to be parted."""
        if count < 2:
            jobs = plural.count(count, "job")
            raise ConfigError(f"{jobs} cannot be parted into those to search on and those to judge by")
        order = np.random.default_rng(seed).permutation(count)
        return cls(np.sort(order[: count // 2]), np.sort(order[count // 2 :]))


def windows(apps: Applications, count: int, most: int) -> list[Applications]:
    """Return *count* contiguous windows of *apps* with their arrivals as they were, each of *most* at most.

    They begin at equal distances in the order of arrival. ConfigError where a window would have fewer than two.
    """
    width = len(apps) // count
    if width < 2:
        jobs = plural.count(len(apps), "job")
        raise ConfigError(f"{jobs} cannot be parted into {count} windows of at least two")
    return [apps.take(slice(at * width, at * width + min(width, most))) for at in range(count)]


def sample(apps: Applications, rows: IntArray, count: int, gpus: int, load: float, seed: int) -> Applications:
    """*count* applications drawn from *rows* of *apps* with replacement, arriving at random (Poisson).

    The last one arrives when their work over what *gpus* GPUs do one by one is exactly *load*.
    """
    if not 0 < load < np.inf:
        raise ConfigError(f"load = {load!r}: accepted is a number above 0")
    random = np.random.default_rng(seed)
    drawn = apps.take(random.choice(rows, count))
    return _arriving(drawn, gpus, load, random)


def automl(count: int, gpus: int, load: float, seed: int) -> Applications:
    """*count* AutoML jobs like those of PCS's testbed (section 5.1): 1 to 20 trials of one GPU, at most 2 GPU-hours.

    Trials are taken to be equally long, so a job is as much faster as it has GPUs, up to one for each. Its work is
    log-normal with a median of 25 minutes, cut at 1 minute and 2 hours.
    """
    random = np.random.default_rng(seed)
    drawn = _MEDIAN_S * np.exp(_SPREAD * random.standard_normal(count))
    trials = random.integers(1, MOST_TRIALS + 1, count)
    nothing: FloatArray = np.zeros(count)
    jobs = Applications(
        nothing,
        np.clip(drawn, _LEAST_S, MOST_SERVICE_S),
        trials,
        np.zeros(count, np.int64),
        Curves.of({}, MOST_TRIALS),
    )
    return _arriving(jobs, gpus, load, random)


def _arriving(apps: Applications, gpus: int, load: float, random: np.random.Generator) -> Applications:
    """The same applications with Poisson arrivals that make the load exact."""
    span_s = float(apps.service_s.sum()) / (load * gpus)
    at_s = np.cumsum(random.exponential(1.0, len(apps)))
    at_s -= at_s[0]
    at_s *= span_s / at_s[-1] if at_s[-1] > 0 else 0.0
    return Applications(at_s, apps.service_s, apps.demand, apps.curve, apps.curves)
