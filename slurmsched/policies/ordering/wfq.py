"""Weighted fair queueing as PCS does it (Bin Faisal et al., OSDI'24, section 3): classes by size, weights, and caps.

A job belongs to the first class whose threshold is not below its size. Inside a class jobs are served in order of
arrival, or, as far as ``overtake`` lets them, the smaller ones first; each with no more GPUs than it uses efficiently.
A class has its share of the GPUs; unused GPUs go to the other classes in proportion to their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.ties import in_points
from ...errors import ConfigError

Numbers = TypeVar("Numbers", float, FloatArray)

LEAST_WEIGHT = 0.001
"""Least weight of a class before normalisation, since a class with almost no weight starves."""

NO_LIMIT = 1 << 30
"""A number of GPUs above any request."""

MOST_OVERTAKE = 1000.0
"""Largest ``overtake``: a GPU-second less of work is worth a thousand seconds of waiting."""

_LEAST_DELTA = 0.001


def _check(name: str, value: object, holds: bool, accepted: str) -> None:
    if not holds:
        shown: object = list(value) if isinstance(value, Sequence) else value
        raise ConfigError(f"wfq: {name} = {shown!r}: accepted is {accepted}")


@dataclass(frozen=True)
class Wfq:
    """The parameters of weighted fair queueing. ConfigError names an invalid figure and the accepted ones."""

    thresholds: tuple[float, ...]  #: largest size of each class, rising; the last is infinite
    weights: tuple[float, ...]  #: of each class; they add up to one
    zeta: float  #: least speed-up per GPU that limits the GPUs of a job; 0 is no cap
    delta: float = 0.1  #: step by which zeta is lowered while the class has GPUs left
    overtake: float = 0.0  #: seconds of earlier arrival that one GPU-second less of remaining work is worth in a class

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in zip(self.thresholds, self.thresholds[1:], strict=False))
        ends = bool(self.thresholds) and self.thresholds[-1] == math.inf
        _check("thresholds", self.thresholds, rising and ends, "rising sizes of which the last is inf")
        fit = len(self.weights) == len(self.thresholds) and all(weight > 0 for weight in self.weights)
        whole = fit and math.isclose(sum(self.weights), 1, rel_tol=1e-6)
        _check("weights", self.weights, whole, "one number above 0 per threshold, 1 in total")
        _check("zeta", self.zeta, 0 <= self.zeta <= 1, "0 to 1")
        _check("delta", self.delta, _LEAST_DELTA <= self.delta <= 1, f"{_LEAST_DELTA:g} to 1")
        _check("overtake", self.overtake, 0 <= self.overtake <= MOST_OVERTAKE, f"0 to {MOST_OVERTAKE:g}")

    @classmethod
    def of(cls, sizes: FloatArray, variation: float, slope: float, zeta: float, delta: float = 0.1) -> Self:
        """Build classes in which *sizes* vary by at most *variation* (T), with weights that fall by *slope* (W).

        T is the largest squared coefficient of variation inside a class, and class i has weight e^(-iW) before all are
        divided by their sum (section 3.3). W below 0 favours large jobs. No weight is below ``LEAST_WEIGHT``.
        """
        _check("variation", variation, variation >= 0, "0 and more")
        _check("slope", slope, math.isfinite(slope), "a number")
        limits = thresholds(sizes, variation)
        steps = -slope * np.arange(len(limits))
        raw = in_points(np.exp(steps - steps.max()))
        raw = np.maximum(raw / raw.sum(), LEAST_WEIGHT)
        return cls(tuple(limits), tuple((raw / raw.sum()).tolist()), zeta, delta)

    def classes(self, sizes: FloatArray) -> IntArray:
        """Return the class of each size, from 0."""
        return np.searchsorted(np.array(self.thresholds), sizes, side="left")

    def limits(self, speed: FloatArray) -> IntArray:
        """Return the most GPUs of a job, for each lowering of the cap (rows) and each curve of *speed* (columns).

        *speed* holds the speed-up of each curve (row) on 0, 1, ... GPUs. The limit is one GPU less than the first
        number on which the speed-up per GPU is below the cap, and ``NO_LIMIT`` in the last row.
        """
        efficiency = speed[:, 1:] / np.arange(1, speed.shape[1])
        rows, cap = [], self.zeta
        while cap > efficiency.min():
            below = efficiency < cap
            rows.append(np.where(below.any(axis=1), below.argmax(axis=1), NO_LIMIT))
            cap -= self.delta
        rows.append(np.full(len(speed), NO_LIMIT))
        return np.array(rows, dtype=np.int64)


def place(came_s: Numbers, size: Numbers, overtake: float) -> Numbers:
    """Return the key by which the jobs of a class are served, the smallest first; sizes are finite GPU-seconds.

    At 0 it is the order of arrival, and the larger *overtake*, the closer to shortest remaining service first. It
    bounds what a job waits for: no job that comes *overtake* times its size later is served before it.
    """
    return came_s + overtake * size


FIFO = Wfq((math.inf,), (1.0,), 0.0)
"""One class and no cap: first come, first served; later arrivals cannot invalidate its predictions."""


def thresholds(sizes: FloatArray, variation: float) -> list[float]:
    """Return the largest size of each class, the last infinite: the fewest classes that bound the variation of each.

    The squared coefficient of variation of the sizes in a class is at most *variation*; equal sizes stay together.
    """
    distinct, count = np.unique(sizes, return_counts=True)
    cuts: list[float] = []
    jobs = total = squares = 0.0
    for at, (size, more) in enumerate(zip(distinct.tolist(), count.tolist(), strict=True)):
        grown = (jobs + more, total + more * size, squares + more * size * size)
        if jobs and _variation(*grown) > variation:
            cuts.append(float(distinct[at - 1]))
            grown = (more, more * size, more * size * size)
        jobs, total, squares = grown
    return [*cuts, math.inf]


def most_variation(sizes: FloatArray) -> float:
    """Return the least T that gives one class: the largest variation of the jobs up to any size."""
    ranked = np.sort(sizes)
    jobs, total, squares = np.arange(1, len(ranked) + 1), np.cumsum(ranked), np.cumsum(ranked**2)
    return float(np.max(jobs * squares / total**2 - 1, initial=0.0))


def _variation(jobs: float, total: float, squares: float) -> float:
    return jobs * squares / (total * total) - 1 if total else 0.0
