"""The search space: T, W, zeta and, unless it is fixed, delta, as a point of the unit cube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...policies.ordering.wfq import Wfq, most_variation
from ...policies.ordering.wfq_line import line_of

LEAST_VARIATION = 0.01  #: share of the T that makes one class
MOST_SLOPE = 3.0
DELTAS = (0.01, 0.9)

_SLACK = 1 + 1e-6  #: prevents rounding from splitting one class into two


@dataclass(frozen=True)
class WfqPoint:
    """A point in PCS's own terms, and its setting for the given sizes."""

    variation: float  #: T
    slope: float  #: W
    wfq: Wfq


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """The settings for jobs of *sizes*."""

    sizes: FloatArray
    most_variation: float  #: from here on, all jobs are one class
    delta: float | None  #: None to search it too

    @classmethod
    def of(cls, sizes: FloatArray, delta: float | None = None) -> Self:
        """Build the space for *sizes*; ConfigError for an invalid *delta*."""
        if delta is not None and not DELTAS[0] <= delta <= 1:
            raise ConfigError(f"delta = {delta!r}: accepted is {DELTAS[0]} to 1")
        return cls(sizes, max(most_variation(sizes) * _SLACK, _SLACK - 1), delta)

    @property
    def dimensions(self) -> int:
        """The number of coordinates of a point."""
        return 3 if self.delta is not None else 4

    def setting(self, point: FloatArray) -> WfqPoint:
        """Return the setting at *point*. T is spread by its logarithm, the others evenly."""
        variation = self.most_variation * LEAST_VARIATION ** (1 - float(point[0]))
        slope = MOST_SLOPE * (2 * float(point[1]) - 1)
        low, high = DELTAS
        delta = self.delta if self.delta is not None else low + (high - low) * float(point[3])
        return WfqPoint(variation, slope, Wfq.of(self.sizes, variation, slope, float(point[2]), delta))

    def first(self, count: int, seed: int) -> FloatArray:
        """Return *count* initial points: first come, first served, and points spread evenly at random.

        Each coordinate has one point in each of as many equal parts (a Latin hypercube).
        """
        random = np.random.default_rng(seed)
        strata = np.array([random.permutation(count) for _ in range(self.dimensions)]).T
        points = (strata + random.random(strata.shape)) / count
        points[0] = [1.0, 0.5, 0.0, 0.5][: self.dimensions]
        return np.asarray(points)


def setting_line(wfq: Wfq) -> str:
    """Return the command that makes *wfq* the policy."""
    return f"slurmsched policy set wfq {line_of(wfq)}"
