"""The search space: cuts between classes, weights, zeta, delta and overtake, as a point of the unit cube."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...policies.ordering.wfq import LEAST_WEIGHT, Wfq
from ...policies.ordering.wfq_line import line_of

MOST_CLASSES = 4
DELTAS = (0.01, 0.9)
_BEYOND = 1.25  #: how far the scale of cuts goes beyond the largest size, in its own lengths: such a cut is none
_STEPS = (-2.0, 7.0)  #: log of the weight of a class over that of the next one
_OVERTAKES = (1e-4, 10.0)  #: below the first, jobs are served in order of arrival
_FIRST_CLASS = 0.01  #: share of the jobs that are smaller than the smallest cut


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """The settings for jobs of *sizes*."""

    sizes: FloatArray  #: distinct, rising
    least: float  #: the smallest cut
    delta: float | None = None  #: None to search it too
    rigid: bool = False  #: jobs have the GPUs that they ask for: zeta is 0, and delta has no effect

    @classmethod
    def of(cls, sizes: FloatArray, delta: float | None = None, *, rigid: bool = False) -> Self:
        """Build the space for *sizes*; ConfigError for an invalid *delta*."""
        if delta is not None and not DELTAS[0] <= delta <= 1:
            raise ConfigError(f"delta = {delta!r}: accepted is {DELTAS[0]} to 1")
        return cls(np.unique(sizes), float(np.quantile(sizes, _FIRST_CLASS)), delta, rigid)

    @property
    def dimensions(self) -> int:
        """The number of coordinates of a point."""
        return 2 * (MOST_CLASSES - 1) + len(self._terms)

    @property
    def _terms(self) -> tuple[str, ...]:
        """The names of the coordinates after cuts and steps."""
        if self.rigid:
            return ("overtake",)
        return ("zeta", "overtake") if self.delta is not None else ("zeta", "overtake", "delta")

    def setting(self, point: FloatArray) -> Wfq:
        """Return the setting at *point*: cuts and steps between weights, then zeta, overtake and delta."""
        cuts, steps = point[: MOST_CLASSES - 1], point[MOST_CLASSES - 1 : 2 * (MOST_CLASSES - 1)]
        term = dict(zip(self._terms, point[2 * (MOST_CLASSES - 1) :].tolist(), strict=True))
        low, high = DELTAS
        delta = low + (high - low) * term["delta"] if "delta" in term else self.delta
        thresholds = self._thresholds(cuts)
        return Wfq(
            thresholds,
            _weights(steps[: len(thresholds) - 1]),
            term.get("zeta", 0.0),
            Wfq.delta if delta is None else delta,
            _overtake(term["overtake"]),
        )

    def first(self, count: int, seed: int) -> FloatArray:
        """Return *count* initial points: first come, first served, shortest first, and points spread evenly at random.

        Each coordinate has one point in each of as many equal parts (a Latin hypercube), but half of the points let
        nobody overtake in a class.
        """
        random = np.random.default_rng(seed)
        strata = np.array([random.permutation(count) for _ in range(self.dimensions)]).T
        points = (strata + random.random(strata.shape)) / count
        whole = [1.0] * (MOST_CLASSES - 1) + [0.5] * (MOST_CLASSES - 1)
        for at, overtake in enumerate((0.0, 1.0)):
            term = {"zeta": 0.0, "overtake": overtake, "delta": 0.5}
            points[at] = [*whole, *(term[name] for name in self._terms)]
        points[2 : count // 2, self._terms.index("overtake") - len(self._terms)] = 0.0
        return np.asarray(points)

    def _thresholds(self, cuts: FloatArray) -> tuple[float, ...]:
        """Return the largest size of each class: cuts lie evenly on the logarithm of sizes, each at a size of a job."""
        low, high = math.log(self.least), math.log(self.sizes[-1])
        wanted = np.exp(low + _BEYOND * (high - low) * np.sort(cuts))
        at = np.searchsorted(self.sizes, wanted, side="right") - 1
        kept = np.unique(at[(at >= 0) & (at < len(self.sizes) - 1)])
        return (*self.sizes[kept].tolist(), math.inf)


def _weights(steps: FloatArray) -> tuple[float, ...]:
    low, high = _STEPS
    logs = np.concatenate([[0.0], -np.cumsum(low + (high - low) * steps)])
    raw = np.exp(logs - logs.max())
    raw = np.maximum(raw / raw.sum(), LEAST_WEIGHT)
    return tuple((raw / raw.sum()).tolist())


def _overtake(part: float) -> float:
    """Return the overtake at *part* of its scale: none in the first fifth, then evenly on its logarithm."""
    if part < 0.2:
        return 0.0
    low, high = _OVERTAKES
    return float(low * (high / low) ** ((part - 0.2) / 0.8))


def setting_line(wfq: Wfq) -> str:
    """Return the command that makes *wfq* the policy."""
    return f"slurmsched policy set wfq {line_of(wfq)}"
