"""Scores of predicted waits: for the median, and for the interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...models.completion.completion_calibration import GRACE_S
from .predictors import SHARES

STATED = SHARES[2] - SHARES[0]
"""The share of waits that should lie within the interval."""


@dataclass(frozen=True)
class WaitScores:
    """The scores of one predictor over the jobs that it answered for; NaN where it states no interval.

    Ratios and logarithms count GRACE_S seconds more on both sides: between 1 s and 10 s nobody cares.
    """

    predictor: str
    asked: int
    answered: int
    error_s: float  #: median of |true - predicted|
    within_2x: float  #: share of medians within a factor of 2 of the truth
    within_3x: float
    pinball_s: float  #: mean pinball loss over the three quantiles, in seconds: long waits decide
    pinball_log: float  #: the same of natural logarithms: all waits count alike
    covered: float  #: share of waits within the interval; STATED is meant
    by_high: float  #: share of waits up to the high end; nine in ten are meant
    width_s: float  #: median width of the interval


@dataclass(frozen=True)
class QueueTimes:
    """The result on one data set."""

    data: str
    format: str
    jobs: int
    notes: tuple[str, ...]
    learnt: int  #: questions from which predictors only learnt
    since_s: float  #: scored from this moment on
    median_wait_s: float  #: of the scored jobs
    scores: tuple[WaitScores, ...]


def score(predictor: str, predicted_s: FloatArray, true_s: FloatArray) -> WaitScores:
    """Score *predicted_s*, shape (3, jobs), against the true waits; jobs without an answer are left out."""
    answered = np.isfinite(predicted_s[1])
    said_s, truth_s = predicted_s[:, answered], true_s[answered]
    low_s, middle_s, high_s = said_s
    factor = np.abs(np.log((middle_s + GRACE_S) / (truth_s + GRACE_S)))
    has_interval = np.isfinite(low_s) & np.isfinite(high_s)
    inside = (truth_s >= low_s) & (truth_s <= high_s)
    return WaitScores(
        predictor,
        len(true_s),
        int(answered.sum()),
        _median(np.abs(truth_s - middle_s)),
        _mean(factor <= np.log(2.0) + 1e-12),
        _mean(factor <= np.log(3.0) + 1e-12),
        _mean(pinball(said_s, truth_s)),
        _mean(pinball(np.log(said_s + GRACE_S), np.log(truth_s + GRACE_S))),
        _mean(inside) if has_interval.all() else np.nan,
        _mean(truth_s <= high_s) if has_interval.all() else np.nan,
        _median(high_s - low_s),
    )


def pinball(said: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the mean pinball loss over SHARES of each job; NaN where a quantile is not stated."""
    share = np.array(SHARES)[:, None]
    over = truth - said
    return np.asarray(np.maximum(share * over, (share - 1) * over).mean(axis=0))


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else np.nan


def _mean(values: FloatArray | BoolArray) -> float:
    return float(np.mean(values)) if len(values) else np.nan
