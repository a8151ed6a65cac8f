"""Runtimes from iteration times: training is repetitive, so that a few minutes predict the rest.

For jobs that report the end of each iteration. A job is measured on one node and, if it requests more, on two; the
iteration time on n nodes follows from these (section 3.2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PROFILE_S = 300.0
"""Longest measurement of a job (T_profile)."""

WARM_UP = 0.1
"""Share of measured iterations at the beginning that do not count: loading, compiling, filling caches."""

LEAST = 5
"""Minimum number of measured iterations for a pace."""

_DECILE = 1.2816
_MEDIAN_ERROR = 1.2533  # the standard error of a median, over that of a mean


class IterationTime(NamedTuple):
    """The time of one iteration, in seconds."""

    median_s: float
    error_s: float  #: standard error of the median


class Rest(NamedTuple):
    """The time of the remaining iterations, in seconds."""

    median_s: float
    high_s: float  #: the upper decile


def pace(marks_s: Sequence[float]) -> IterationTime | None:
    """Return the pace of a job whose iterations ended at *marks_s*; None if there are too few.

    Only the first ``PROFILE_S`` seconds count. ValueError if times decrease.
    """
    marks = np.asarray(marks_s, np.float64)
    took_s = np.diff(marks[: np.searchsorted(marks, marks[0] + PROFILE_S, side="right")]) if len(marks) else marks
    if np.any(took_s < 0) or np.any(np.diff(marks) < 0):
        raise ValueError("ends of iterations: accepted are times that never fall")
    took_s = took_s[int(np.ceil(WARM_UP * len(took_s))) :]
    if len(took_s) < LEAST:
        return None
    return IterationTime(float(np.median(took_s)), _MEDIAN_ERROR * float(np.std(took_s)) / float(np.sqrt(len(took_s))))


def on_nodes(one: IterationTime, two: IterationTime | None, nodes: int) -> IterationTime:
    """Return the pace on *nodes* nodes: t_n = t_1 + log2(n) (t_2 - t_1). ValueError if *two* is needed and missing."""
    if nodes < 1:
        raise ValueError(f"{nodes} nodes: accepted are 1 and more")
    if nodes == 1:
        return one
    if two is None:
        raise ValueError(f"{nodes} nodes: the pace on two nodes is needed")
    doublings = float(np.log2(nodes))
    median_s = one.median_s + doublings * (two.median_s - one.median_s)
    error_s = float(np.hypot((1.0 - doublings) * one.error_s, doublings * two.error_s))
    return IterationTime(max(median_s, 0.0), error_s)


def rest(pace: IterationTime, iterations: int) -> Rest:
    """Return the time of *iterations* at a *pace*; ValueError if their number is negative."""
    if iterations < 0:
        raise ValueError(f"{iterations} iterations left: accepted are 0 and more")
    return Rest(iterations * pace.median_s, iterations * (pace.median_s + _DECILE * pace.error_s))
