"""The reported points of one job's training, and what they say about it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from statistics import median

import numpy as np

from .curve_families import predicted_value

POINTS_MOST = 200
LEAST_POINTS = 20
"""Minimum number of reported values for a statement about their course."""

LATE_SHARE = 0.25  #: part of the iterations that counts as lately
LONG_SHARE = 0.5  #: part of the iterations after which a plateau ends training whatever is predicted

LEAST_RISE = 0.002
"""Rise of the accuracy that ends a plateau; of a loss, its fall relative to the first one."""

WORTHWHILE_RISE = 0.01
"""Predicted rise to the end for which training goes on in spite of a plateau."""

NEWS = 1.05  #: growth of the iterations after which a curve is extrapolated again


class Points:
    """The lowest values of a curve up to some iterations: at most ``POINTS_MOST``, evenly thinned after that."""

    def __init__(self) -> None:
        self.iterations: list[int] = []
        self.lowest: list[float] = []  #: the lowest value up to each of the iterations
        self.first = math.nan
        self._every = 1  # values per point
        self._pending = 0

    def __len__(self) -> int:
        return len(self.lowest)

    def add(self, iteration: int, value: float) -> None:
        """Add a value at an iteration behind all others, or at the last one."""
        lowest = min(value, self.lowest[-1]) if self.lowest else value
        if not self.lowest:
            self.first = value
        elif self._pending or iteration == self.iterations[-1]:
            self.iterations.pop()
            self.lowest.pop()
        self.iterations.append(iteration)
        self.lowest.append(lowest)
        self._pending = (self._pending + 1) % self._every
        if len(self) > POINTS_MOST:
            self._thin()

    def return_to(self, iteration: int) -> None:
        """Drop the values behind *iteration*."""
        count = bisect_right(self.iterations, iteration)
        del self.iterations[count:], self.lowest[count:]
        self._pending = 0

    def before(self, share: float) -> float:
        """Return the lowest value before the last *share* of the iterations."""
        first, last = self.iterations[0], self.iterations[-1]
        return self.lowest[bisect_left(self.iterations, last - share * (last - first)) - 1]

    def _thin(self) -> None:
        """Keep the later one of each two points."""
        whole = len(self) // 2 * 2
        self.iterations = self.iterations[1:whole:2] + self.iterations[whole:]
        self.lowest = self.lowest[1:whole:2] + self.lowest[whole:]
        self._every *= 2
        self._pending = 0


class LearningCurve:
    """What a job reported about its training."""

    def __init__(self) -> None:
        self._losses, self._errors = Points(), Points()
        self._measured = -1, math.nan  # iteration and accuracy of the last measurement
        self._gaps: deque[int] = deque(maxlen=LEAST_POINTS)  # iterations between accuracies that differ
        self._extrapolated_at = 0
        self._settled = False
        self.iteration = -1  #: the latest one; -1 before any
        self.accuracy = math.nan  #: the highest one

    def add(self, iteration: int, loss: float, accuracy: float) -> None:
        """Add a report about an iteration behind all others."""
        self.iteration = iteration
        self.accuracy = max((self.accuracy, accuracy), key=lambda value: (not math.isnan(value), value))
        if not math.isnan(loss):
            self._losses.add(iteration, loss)
        if not math.isnan(accuracy) and self._is_measured(iteration, accuracy):
            self._errors.add(iteration, 1.0 - accuracy)
            self._measured = iteration, accuracy

    def _is_measured(self, iteration: int, accuracy: float) -> bool:
        """Return whether *accuracy* is new: programs also report the last one until they measure again.

        It is if it differs, or after as many iterations as usually lie between two that differ.
        """
        before, last = self._measured
        if accuracy != last:
            if before >= 0:
                self._gaps.append(iteration - before)
            return True
        return bool(self._gaps) and iteration - before >= median(self._gaps)

    def return_to(self, iteration: int) -> None:
        """Drop what was reported behind *iteration*: a new run goes on from work saved there."""
        self._losses.return_to(iteration)
        self._errors.return_to(iteration)
        self.iteration = min(self.iteration, iteration)
        self._extrapolated_at, self._settled = 0, False
        self._measured = min(self._measured[0], iteration), math.nan

    @property
    def loss_fall(self) -> float:
        """The relative fall of the lowest loss in the last quarter of the iterations; NaN where unknown."""
        if len(self._losses) < LEAST_POINTS:
            return math.nan
        before = self._losses.before(LATE_SHARE)
        return max(0.0, before - self._losses.lowest[-1]) / max(abs(before), 1e-12)

    @property
    def late_fall(self) -> float:
        """The part of the fall of the lowest loss that came in the last quarter of the iterations; NaN if unknown.

        It is a steady form of the last loss reduction over the sum of all that MLFS (CoNEXT'20) has in its (2).
        """
        if len(self._losses) < LEAST_POINTS:
            return math.nan
        last = self._losses.lowest[-1]
        whole = self._losses.first - last
        return (self._losses.before(LATE_SHARE) - last) / whole if whole > 0 else math.nan

    def settles(self, end: int) -> bool:
        """Return whether training up to iteration *end* hardly improves the best value so far.

        It does not where the value, in the last ``LEAST_POINTS`` measurements and in the last quarter of the
        iterations, rose by less than ``LEAST_RISE``, unless the families of curves predict a ``WORTHWHILE_RISE`` and
        the plateau is no ``LONG_SHARE`` of the iterations.
        The value is the accuracy where the job reports any, else the part of its first loss by which the loss fell.
        Where *end* is 0 it is unknown: twice the iterations so far.
        """
        points = self._errors if len(self._errors) else self._losses
        if len(points) <= LEAST_POINTS:
            return False
        least, scale = (0.0, 1.0) if points is self._errors else (-9.0, max(abs(points.first), 1e-12))

        def value(lowest: float) -> float:
            return 1.0 - min(max(lowest / scale, least), 1.0)

        best, before = value(points.lowest[-1]), value(points.lowest[-1 - LEAST_POINTS])
        if best - min(before, value(points.before(LATE_SHARE))) >= LEAST_RISE:
            return False
        if best - min(before, value(points.before(LONG_SHARE))) < LEAST_RISE:
            return True
        if self.iteration >= NEWS * self._extrapolated_at:
            # Iterations count from 0 in many programs.
            iterations, values = np.array(points.iterations) + 1.0, np.array([value(one) for one in points.lowest])
            ahead = predicted_value(iterations, values, max(end or 2 * self.iteration, self.iteration) + 1.0)
            self._settled = ahead - best < WORTHWHILE_RISE
            self._extrapolated_at = self.iteration
        return self._settled
