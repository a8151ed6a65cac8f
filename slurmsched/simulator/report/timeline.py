"""Quantities over time: jobs in the system, GPUs busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray


@dataclass(frozen=True, eq=False)
class Timeline:
    """A sum of weighted intervals, stored as its integral over time; exact at every time."""

    at_s: FloatArray  #: times at which the sum changes, rising
    integral: FloatArray  #: of the sum up to there

    @classmethod
    def of(cls, from_s: FloatArray, to_s: FloatArray, weight: FloatArray | float = 1.0) -> Self:
        """Sum the intervals from *from_s* to *to_s*, each of which adds *weight* while it lasts."""
        steps = np.broadcast_to(np.asarray(weight, dtype=np.float64), from_s.shape)
        times = np.concatenate((from_s, to_s))
        order = np.argsort(times, kind="stable")  # near linear where intervals are sorted by their start
        at_s = times[order]
        height = np.cumsum(np.concatenate((steps, -steps))[order])
        integral = np.zeros(len(at_s))
        np.cumsum(height[:-1] * np.diff(at_s), out=integral[1:])
        return cls(at_s, integral)

    def mean(self, from_s: FloatArray, to_s: FloatArray) -> FloatArray:
        """Return the mean over each span from *from_s* to *to_s*; NaN over a span without length."""
        if not len(self.at_s):
            return np.where(to_s > from_s, 0.0, np.nan)
        area = np.interp(to_s, self.at_s, self.integral) - np.interp(from_s, self.at_s, self.integral)
        mean = np.full(len(area), np.nan)
        np.divide(area, to_s - from_s, out=mean, where=to_s > from_s)
        return mean
