"""Whether a job will be late, by what is forecast of its runtime and how long it has run already.

Runtimes are taken for log-logistic with the median and the upper decile of the forecast: the one distribution with
these two and a closed form whose tail is wide enough for forecasts that are far off. The longer a job has run beyond
its forecast, the longer it is expected to run still.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray

SURE = 0.5
"""A promise that will more likely be broken than kept is in doubt at once."""

DOUBT = 0.05
"""One that will more likely be broken than this is in doubt once hardly more than the notice is left.

Said earlier, it would be taken back for nearly all: a promise may be broken with 0.1 when it is given, and that rises
with every hour that the job runs."""

NOTICE = 0.1
"""Of the time from submit to the promised end, the share that an owner must have left when told."""

LEAST_NOTICE_S = 600.0
"""And so many seconds at least."""


def chance_late(median_s: FloatArray, high_s: FloatArray, ran_s: FloatArray, ahead_s: FloatArray) -> FloatArray:
    """The probability that a job that has run *ran_s* seconds needs more than *ahead_s* still.

    *median_s* and *high_s* are the forecast's median and upper decile; where they are the same the forecast is certain.
    """
    ends_s = ran_s + np.maximum(ahead_s, 0.0)
    certain = ~(high_s > median_s * (1.0 + 1e-9))
    middle_s = np.where(certain, 1.0, median_s)
    steep = np.log(9.0) / np.log(np.where(certain, np.e, high_s / middle_s))
    beyond = _log_survival(middle_s, steep, ends_s) - _log_survival(middle_s, steep, ran_s)
    chance = np.where(certain, np.where(ends_s < median_s - 1e-3, 1.0, 0.0), np.exp(beyond))
    return np.asarray(np.where(ahead_s < 0.0, 1.0, chance), np.float64)


def in_doubt(
    late: FloatArray, ahead_s: FloatArray, window_s: FloatArray, beat_s: float, doubt: float = DOUBT
) -> BoolArray:
    """Whether owners are told, *ahead_s* before the end of a window of *window_s*, that a promise may be broken.

    *late* is the chance of that, *beat_s* how long it is until somebody looks again.
    """
    notice_s = np.maximum(LEAST_NOTICE_S, NOTICE * window_s)
    return (late > SURE) | ((late > doubt) & (ahead_s <= notice_s + beat_s))


def _log_survival(median_s: FloatArray, steep: FloatArray, at_s: FloatArray) -> FloatArray:
    """The logarithm of the share of such runtimes that are longer than *at_s*."""
    survival: FloatArray = -np.logaddexp(0.0, steep * np.log(np.maximum(at_s, 1e-9) / median_s))
    return survival
