"""Runtimes drawn from forecasts: what jobs may turn out to need, where the forecast is all that is known."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.outlook.remaining import MIDDLE, Remaining, left_s, remaining
from ..cluster.state import View

TENTH = NormalDist().inv_cdf(0.9)
"""The distance of the ends of an 80 % interval from the median, in standard deviations."""


def drawn(view: View, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw the runtimes of the pending and of the running jobs of *view*, each job by itself.

    What a job still needs has the median and the 80 % interval of ``Remaining``, on a logarithmic scale with a width
    for each side. Nothing outlasts its time limit. NaN for a pending job without a forecast.
    """
    none_s, limit_s = np.zeros(len(view.pending)), view.pending.time_limit_s
    waiting_s = _drawn(remaining(view.forecast, none_s, none_s, limit_s), limit_s, random)
    running_s = view.ran_s + _drawn(view.run_left, view.running.time_limit_s - view.this_s, random)
    return np.where(np.isnan(view.forecast.runtime_s), np.nan, waiting_s), running_s


def certain(view: View) -> bool:
    """Report whether all forecasts are without an interval, so that each draw is the same."""
    return all(np.array_equal(one.low_s, one.high_s, equal_nan=True) for one in (view.forecast, view.forecast_running))


def _drawn(left: Remaining, until_limit_s: FloatArray, random: np.random.Generator) -> FloatArray:
    """Draw what jobs still need."""
    deviation = random.standard_normal(len(left)) / TENTH
    known_s = np.where(np.isfinite(left.high_s), left.high_s, left.median_s)
    wider = np.where(deviation < 0, left.median_s / left.low_s, known_s / left.median_s)
    return np.asarray(left_s(left.median_s * wider**deviation, np.zeros(len(left)), MIDDLE, until_limit_s))
