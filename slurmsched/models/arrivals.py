"""Submissions in ten-minute steps, and the features from which the load of a step is forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Table
from ..cluster.ties import in_points

STEP_S = 600.0
LAG = 6  #: a feature of a step uses steps that are at least this much older
DAY, WEEK = 144, 1008  #: steps
REACH = WEEK + 2 * LAG  #: how many steps before a step its features reach back
SERIES = ("jobs", "gpus")
SETTLED = 0.95


@dataclass(frozen=True, eq=False)
class Arrivals(Table):
    """Submissions per step, oldest first, without gaps."""

    start_s: FloatArray  #: Unix time at which the step began, a multiple of STEP_S
    jobs: FloatArray
    gpus: FloatArray  #: GPUs requested by those jobs

    @classmethod
    def of(cls, submitted_s: FloatArray, gpus: IntArray, until_s: float) -> Self:
        """Group the jobs into whole steps before *until_s*, beginning with the step of the first job."""
        last = int(until_s // STEP_S)
        steps = (submitted_s // STEP_S).astype(np.int64)
        complete = steps < last
        first = int(steps[complete].min()) if complete.any() else last
        places, length = steps[complete] - first, last - first
        return cls(
            np.arange(first, last, dtype=np.float64) * STEP_S,
            np.bincount(places, minlength=length).astype(np.float64),
            np.bincount(places, weights=gpus[complete], minlength=length).astype(np.float64),
        )

    def latest(self, steps: int) -> Self:
        """Return the newest *steps*."""
        return self.take(slice(max(0, len(self) - steps), None))


def settled_s(submitted_s: FloatArray, ended_s: FloatArray) -> float:
    """Return the Unix time until which nearly all submissions are in the history; later jobs may still wait or run.

    Of what was submitted as long before the last end as SETTLED of the jobs took to end, that share has.
    """
    if not len(submitted_s):
        return 0.0
    took_s = float(np.quantile(ended_s - submitted_s, SETTLED))
    return min(float(ended_s.max()) - took_s, float(submitted_s.max()) + 1.0)


def features(history: Arrivals, ahead: int = 0) -> dict[str, FloatArray]:
    """Compute the features of each step of *history* and of up to LAG steps *ahead*; NaN where history is too short.

    One function for training and for serving: row *i* depends on nothing younger than step *i* - LAG, and on nothing
    older than step *i* - REACH.
    """
    if ahead > LAG:
        raise ValueError(f"features reach {LAG} steps ahead, not {ahead}")
    rows = len(history) + ahead
    first = round(history.start_s[0] / STEP_S) if len(history) else 0
    step: IntArray = first + np.arange(rows, dtype=np.int64)
    weekday = ((step // DAY + 3) % 7).astype(np.float64)  # the first of January 1970 was a Thursday
    columns: dict[str, FloatArray] = {
        "hour": (step % DAY) / 6.0,
        "weekday": weekday,
    }
    for name in SERIES:
        columns |= {f"{name} {what}": values for what, values in _of_series(getattr(history, name), rows).items()}
    return columns


def rolling_median(history: Arrivals, series: str, ahead: int = 0) -> FloatArray:
    """Forecast each step by the median of the twelve steps up to LAG steps before it: the baseline for any model."""
    median: FloatArray = np.median(_window(getattr(history, series), len(history) + ahead, LAG, 12), axis=1)
    return median


def _window(values: FloatArray, rows: int, lag: int, width: int) -> FloatArray:
    """Return windows of values: row *i* holds steps *i* - lag - width + 1 to *i* - lag; NaN where unknown."""
    padded = np.concatenate((np.full(lag + width - 1, np.nan), values, np.full(LAG, np.nan)))
    return np.lib.stride_tricks.sliding_window_view(padded, width)[:rows]


def _of_series(values: FloatArray, rows: int) -> dict[str, FloatArray]:
    def window(lag: int, width: int) -> FloatArray:
        return _window(values, rows, lag, width)

    hour, two, six, day = (window(LAG, width) for width in (6, 12, 36, DAY))
    days = [window(number * DAY - LAG, 2 * LAG + 1).mean(axis=1) for number in range(1, 8)]
    columns: dict[str, FloatArray] = {
        "last": window(LAG, 1)[:, 0],
        "mean of 30 min": window(LAG, 3).mean(axis=1),
        "mean of 2 h": two.mean(axis=1),
        "mean of 6 h": six.mean(axis=1),
        "mean of a day": day.mean(axis=1),
        "median of 1 h": np.median(hour, axis=1),
        "median of 2 h": np.median(two, axis=1),
        "median of 6 h": np.median(six, axis=1),
        "most in 2 h": two.max(axis=1),
        "least in 2 h": two.min(axis=1),
        "deviation in 2 h": two.std(axis=1),
        "soft sum of 1 h": (six * _halving(36, 6)).sum(axis=1),
        "soft sum of 6 h": (day * _halving(DAY, 36)).sum(axis=1),
        "rise in an hour": hour.mean(axis=1) - window(2 * LAG, 6).mean(axis=1),
        "median around this time yesterday": np.median(window(DAY - LAG, 2 * LAG + 1), axis=1),
        "mean around this time yesterday": days[0],
        "usual mean around this time of day": np.median(days, axis=0),
        "mean around this time last week": days[6],
        "rise around this time yesterday": (window(DAY - 3, 7).mean(axis=1) - window(DAY + 3, 7).mean(axis=1)),
    }
    return columns


def _halving(width: int, half_life: int) -> FloatArray:
    """Return weights that sum to 1 and halve with every *half_life* steps of age; the newest step is the last."""
    weights = in_points(0.5 ** (np.arange(width)[::-1] / half_life))
    normalised: FloatArray = weights / weights.sum()
    return normalised
