"""The reported points of one job's training, and what they say about it."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

import numpy as np

from ...cluster.columns import FloatArray
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
    """The lowest values of a curve so far: at most ``POINTS_MOST``, evenly thinned once there are more."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []  # iteration, lowest value since the point before
        self._every = 1  # values per point
        self._pending = 0
        self.first = math.nan

    def __len__(self) -> int:
        return len(self._points)

    def add(self, iteration: int, value: float) -> None:
        """Add a value at an iteration behind all others, or at the last one."""
        if not self._points:
            self.first = value
        if self._points and (self._pending or iteration == self._points[-1][0]):
            self._points[-1] = iteration, min(value, self._points[-1][1])
        else:
            self._points.append((iteration, value))
        self._pending = (self._pending + 1) % self._every
        if len(self._points) > POINTS_MOST:
            self._thin()

    def return_to(self, iteration: int) -> None:
        """Drop the values behind *iteration*."""
        self._points = [point for point in self._points if point[0] <= iteration]
        self._pending = 0

    def lowest(self) -> tuple[FloatArray, FloatArray]:
        """Return the iterations, and the lowest value up to each."""
        columns = np.array(self._points, dtype=np.float64).reshape(-1, 2)
        return columns[:, 0], np.minimum.accumulate(columns[:, 1])

    def _thin(self) -> None:
        """Join each two points to one, with the later iteration and the lower value."""
        pairs = zip(self._points[::2], self._points[1::2], strict=False)
        joined = [(later[0], min(earlier[1], later[1])) for earlier, later in pairs]
        self._points = [*joined, *self._points[2 * len(joined) :]]
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
        iterations, losses = self._losses.lowest()
        before = _value_before(LATE_SHARE, iterations, losses)
        return max(0.0, before - float(losses[-1])) / max(abs(before), 1e-12)

    @property
    def late_fall(self) -> float:
        """The part of the fall of the lowest loss that came in the last quarter of the iterations; NaN if unknown.

        It is a steady form of the last loss reduction over the sum of all that MLFS (CoNEXT'20) has in its (2).
        """
        if len(self._losses) < LEAST_POINTS:
            return math.nan
        iterations, losses = self._losses.lowest()
        whole = self._losses.first - float(losses[-1])
        late = _value_before(LATE_SHARE, iterations, losses) - float(losses[-1])
        return late / whole if whole > 0 else math.nan

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
        iterations, lowest = points.lowest()
        values = 1.0 - (
            lowest if points is self._errors else np.clip(lowest / max(abs(points.first), 1e-12), -9.0, 1.0)
        )
        before = values[-1 - LEAST_POINTS]
        if values[-1] - min(before, _value_before(LATE_SHARE, iterations, values)) >= LEAST_RISE:
            return False
        if values[-1] - min(before, _value_before(LONG_SHARE, iterations, values)) < LEAST_RISE:
            return True
        if self.iteration >= NEWS * self._extrapolated_at:
            # Iterations count from 0 in many programs.
            ahead = predicted_value(iterations + 1, values, max(end or 2 * self.iteration, self.iteration) + 1.0)
            self._settled = ahead - values[-1] < WORTHWHILE_RISE
            self._extrapolated_at = self.iteration
        return self._settled


def _value_before(share: float, iterations: FloatArray, values: FloatArray) -> float:
    """Return the last value before the last *share* of the iterations."""
    return float(values[iterations < iterations[-1] - share * (iterations[-1] - iterations[0])][-1])
