"""Lateness of a job: its probability, from the forecast of its runtime and the time it has run.

Runtimes are assumed log-logistic with the median and the upper decile of the forecast: a distribution in closed form
whose tail is wide enough for forecasts that are far off. The longer a job has run beyond its forecast, the longer its
expected remaining time.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.ties import in_points

SURE = 0.5
"""Probability of breaking a promise above which it is in doubt at once."""

DOUBT = 0.05
"""Probability of breaking a promise above which it is in doubt once little more than the notice time is left.

An earlier warning would be withdrawn for nearly all jobs: a new promise may have a probability of 0.1, which rises with
every hour that the job runs."""

NOTICE = 0.1
"""Share of the time from submit to the promised end that must remain when the owner is warned."""

LEAST_NOTICE_S = 600.0
"""Minimum notice in seconds."""


def chance_late(median_s: FloatArray, high_s: FloatArray, ran_s: FloatArray, ahead_s: FloatArray) -> FloatArray:
    """Return the probability that a job that has run *ran_s* seconds needs more than *ahead_s* further seconds.

    *median_s* and *high_s* are the median and the upper decile of the forecast; if they are equal it is certain.
    """
    ends_s = ran_s + np.maximum(ahead_s, 0.0)
    certain = ~(high_s > median_s * (1.0 + 1e-9))
    middle_s = np.where(certain, 1.0, median_s)
    steep = np.log(9.0) / np.log(np.where(certain, np.e, high_s / middle_s))
    beyond = _log_survival(middle_s, steep, ends_s) - _log_survival(middle_s, steep, ran_s)
    chance = np.where(certain, np.where(ends_s < median_s - 1e-3, 1.0, 0.0), np.exp(beyond))
    return in_points(np.where(ahead_s < 0.0, 1.0, chance))


def in_doubt(
    late: FloatArray, ahead_s: FloatArray, window_s: FloatArray, beat_s: float, doubt: float = DOUBT
) -> BoolArray:
    """Select promises whose owners are warned, *ahead_s* before the end of a window of *window_s*.

    *late* is the probability of breaking each promise, *beat_s* the time until the next check.
    """
    return (late > SURE) | ((late > doubt) & (ahead_s <= notice_s(window_s) + beat_s))


def notice_s(window_s: FloatArray) -> FloatArray:
    """Return the time before the end of a window of *window_s* by which a warning is in time."""
    return np.maximum(LEAST_NOTICE_S, NOTICE * window_s)


def _log_survival(median_s: FloatArray, steep: FloatArray, at_s: FloatArray) -> FloatArray:
    """Return the logarithm of the share of runtimes above *at_s*."""
    survival: FloatArray = -np.logaddexp(0.0, steep * np.log(np.maximum(at_s, 1e-9) / median_s))
    return survival
