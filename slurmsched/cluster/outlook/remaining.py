"""Remaining time: what a job still needs, given that it ran until now. One rule for all who ask."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..columns import FloatArray, Table
from ..forecast import Forecast
from ..ties import to_ms

UNKNOWN_S = 3_600.0
"""The runtime of a job without a forecast and without a time limit."""

ROUNDING_S = 1.0
"""The rounding of forecasts and of Slurm's times: a job is past its forecast by more than that."""

LEAST_S = 1.0
"""The least time that a job still needs."""

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
"""The shares of jobs that end within each bound of a forecast."""

_DECILE = NormalDist().inv_cdf(HIGH)


class Bounds(NamedTuple):
    """Bounds of runtimes from start to end in seconds, never NaN."""

    low_s: FloatArray
    median_s: FloatArray  #: finite
    high_s: FloatArray  #: infinite where nobody knows it

    @classmethod
    def of(cls, forecast: Forecast, limit_s: FloatArray) -> Bounds:
        """Return the bounds of *forecast*, at most the time limit.

        A job without a forecast takes its time limit; without a limit too it is one of UNKNOWN_S, which may take any
        time.
        """
        limit_s = np.where(np.isnan(limit_s), np.inf, limit_s)
        guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
        median_s = np.minimum(np.where(np.isfinite(forecast.runtime_s), forecast.runtime_s, guess_s), limit_s)
        low_s = np.fmin(forecast.low_s, median_s)
        return cls(low_s, median_s, np.maximum(np.fmin(forecast.high_s, limit_s), median_s))

    def within_s(self, share: float) -> FloatArray:
        """Return the runtime within which a *share* of such jobs end, on the log-normal curve through the upper two."""
        wide = np.maximum(self.high_s / self.median_s, 1.0) ** (NormalDist().inv_cdf(share) / _DECILE)
        return to_ms(self.median_s * wide)


@dataclass(frozen=True, eq=False)
class Remaining(Table):
    """What jobs still need, row by row, in seconds: never NaN, and at most until their time limit."""

    low_s: FloatArray  #: one in ten needs no more
    median_s: FloatArray  #: finite
    high_s: FloatArray  #: nine in ten need no more


def left_s(
    runtime_s: FloatArray, ran_s: FloatArray, share: float, until_limit_s: FloatArray | float = np.inf
) -> FloatArray:
    """Return what jobs still need that ran for *ran_s*, if a *share* of them end within *runtime_s* from their start.

    Nothing is known of jobs that outlasted that but the time they ran: half of them end within as long again, nine in
    ten within nine times that. It is at most *until_limit_s*. Also compiled.
    """
    outlasted_s = ran_s * (share / (1.0 - share))
    beyond_s = np.where(ran_s <= runtime_s + ROUNDING_S, runtime_s - ran_s, outlasted_s)
    return np.asarray(np.maximum(np.fmin(beyond_s, until_limit_s), LEAST_S))


def remaining(forecast: Forecast, ran_s: FloatArray, this_s: FloatArray, limit_s: FloatArray) -> Remaining:
    """Return what jobs of *forecast* still need that ran for *ran_s*, *this_s* of it in this run, by their limits."""
    bounds = Bounds.of(forecast, limit_s)
    low_s, median_s, high_s = (
        left_s(bound_s, ran_s, share, limit_s - this_s)
        for bound_s, share in zip(bounds, (LOW, MIDDLE, HIGH), strict=True)
    )
    return Remaining(np.minimum(low_s, median_s), median_s, np.maximum(high_s, median_s))
