"""Objectives to minimise: a metric of a replay, aggregated over its jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...errors import ConfigError
from ..elastic.experiment import ElasticReplay

METRICS: dict[str, Callable[[ElasticReplay], FloatArray]] = {
    "jct": lambda replay: replay.jct_s,
    "error": lambda replay: replay.error,
    "unfairness": lambda replay: replay.unfairness,
}
"""jct: seconds from submission to end; error: its difference from the one predicted at arrival, as a share of that;
unfairness: the time beyond that on an equal share of the GPUs, as a share of it."""

MEASURES: dict[str, Callable[[FloatArray], float]] = {
    "avg": lambda values: float(np.mean(values)),
    "p90": lambda values: float(np.percentile(values, 90)),
    "p99": lambda values: float(np.percentile(values, 99)),
}

DEFAULT = ("jct:avg", "error:avg")


@dataclass(frozen=True)
class Objective:
    """A metric of METRICS with a measure of MEASURES."""

    metric: str
    measure: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``metric:measure``; ConfigError names the accepted ones."""
        metric, _, measure = text.partition(":")
        if metric not in METRICS or measure not in MEASURES:
            accepted = f"{', '.join(METRICS)} before and {', '.join(MEASURES)} after the colon"
            raise ConfigError(f"objective {text!r} is not known; accepted are {accepted}")
        return cls(metric, measure)

    @property
    def name(self) -> str:
        """The objective as ``metric:measure``."""
        return f"{self.metric}:{self.measure}"

    @property
    def fine(self) -> float:
        """A small value: differences below it hardly matter. A second, or a thousandth."""
        return 1.0 if self.metric == "jct" else 0.001

    def __call__(self, replay: ElasticReplay) -> float:
        """Return the value for a replay with predictions; the smaller, the better."""
        return MEASURES[self.measure](METRICS[self.metric](replay))


def objectives_of(texts: Sequence[str]) -> tuple[Objective, ...]:
    """Parse the objectives *texts*; ConfigError for fewer than two, or a repeated one."""
    found = tuple(map(Objective.of, texts))
    if len(found) < 2 or len(set(found)) < len(found):
        raise ConfigError(f"objectives {', '.join(texts)}: accepted are two or more, each once")
    return found


def undominated(values: FloatArray) -> BoolArray:
    """Select the rows that no other dominates (as good in every column and better in one); of equal rows the first."""
    undominated_rows = np.ones(len(values), dtype=bool)
    for row, mine in enumerate(values):
        as_good = np.all(values <= mine, axis=1)
        better = as_good & np.any(values < mine, axis=1)
        undominated_rows[row] = not (better.any() or as_good[:row].any())
    return undominated_rows
