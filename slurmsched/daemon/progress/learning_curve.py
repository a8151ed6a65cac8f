"""The reported points of one job's training, and what they say about it."""

from __future__ import annotations

import math

POINTS_MOST = 200
LEAST_POINTS = 20
"""Minimum number of reported losses for a statement about their fall."""

LATE_SHARE = 0.25  #: part of the iterations that counts as lately


class LearningCurve:
    """The points that a job reported: at most ``POINTS_MOST``, evenly thinned once there are more."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []  # iteration, lowest loss since the point before
        self._every = 1  # reports per point
        self._pending = 0
        self.iteration = -1  #: the latest one; -1 before any
        self.accuracy = math.nan  #: the highest one

    def add(self, iteration: int, loss: float, accuracy: float) -> None:
        """Add a report about an iteration behind all others."""
        self.iteration = iteration
        self.accuracy = max((self.accuracy, accuracy), key=lambda value: (not math.isnan(value), value))
        if math.isnan(loss):
            return
        if self._points and (self._pending or iteration == self._points[-1][0]):
            loss = min(loss, self._points[-1][1])
            self._points[-1] = iteration, loss
        else:
            self._points.append((iteration, loss))
        self._pending = (self._pending + 1) % self._every
        if len(self._points) > POINTS_MOST:
            self._thin()

    def return_to(self, iteration: int) -> None:
        """Drop what was reported behind *iteration*: a new run goes on from work saved there."""
        self._points = [point for point in self._points if point[0] <= iteration]
        self._pending = 0
        self.iteration = min(self.iteration, iteration)

    @property
    def loss_fall(self) -> float:
        """The relative fall of the lowest loss in the last quarter of the iterations; NaN where unknown."""
        if len(self._points) < LEAST_POINTS:
            return math.nan
        first, last = self._points[0][0], self._points[-1][0]
        since = last - LATE_SHARE * (last - first)
        before = min(loss for iteration, loss in self._points if iteration < since)
        lately = min(loss for iteration, loss in self._points if iteration >= since)
        return max(0.0, before - lately) / max(abs(before), 1e-12)

    def _thin(self) -> None:
        """Join each two points to one, with the later iteration and the lower loss."""
        pairs = zip(self._points[::2], self._points[1::2], strict=False)
        joined = [(later[0], min(earlier[1], later[1])) for earlier, later in pairs]
        self._points = [*joined, *self._points[2 * len(joined) :]]
        self._every *= 2
        self._pending = 0
