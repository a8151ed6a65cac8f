"""Runtimes drawn from forecasts: what jobs may turn out to need, where the forecast is all that is known."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.forecast import Forecast
from ..cluster.state import View

TENTH = NormalDist().inv_cdf(0.9)
"""The distance of the ends of an 80 % interval from the median, in standard deviations."""


def drawn(view: View, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw the runtimes of the pending and of the running jobs of *view*, each job by itself.

    What a job still needs has the median and the 80 % interval of its forecast, on a logarithmic scale with a width for
    each side. A forecast of a running job already counts that it ran until now. Nothing outlasts its time limit. NaN
    where there is no forecast.
    """
    ran_s = np.nan_to_num(np.maximum(view.now_s - view.running.started_s, 0.0))
    waiting_s = _drawn(view.forecast, np.zeros(len(view.pending)), view.pending.time_limit_s, random)
    return waiting_s, _drawn(view.forecast_running, ran_s, view.running.time_limit_s, random)


def certain(view: View) -> bool:
    """Report whether all forecasts are without an interval, so that each draw is the same."""
    return all(np.array_equal(one.low_s, one.high_s, equal_nan=True) for one in (view.forecast, view.forecast_running))


def _drawn(forecast: Forecast, ran_s: FloatArray, time_limit_s: FloatArray, random: np.random.Generator) -> FloatArray:
    """Draw what jobs need that have run for *ran_s*."""
    low_s, middle_s, high_s = (
        np.maximum(bound_s - ran_s, 1.0) for bound_s in (forecast.low_s, forecast.runtime_s, forecast.high_s)
    )
    deviation = random.standard_normal(len(ran_s)) / TENTH
    wider = np.where(deviation < 0, middle_s / low_s, high_s / middle_s)
    left_s = middle_s * np.maximum(wider, 1.0) ** deviation
    limit_s = np.where(np.isfinite(time_limit_s), time_limit_s, np.inf)
    return np.asarray(np.minimum(ran_s + left_s, np.maximum(limit_s, ran_s + 1.0)))
