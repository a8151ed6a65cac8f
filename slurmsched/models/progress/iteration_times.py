"""The time that a job takes for an iteration, by its reports: now, beside that when it was fastest."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

TYPICAL = 5
"""Reports in a row whose median time counts: single ones hold evaluations and saves."""


class IterationTimes:
    """The iteration times of one job, through all its runs."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._recent_s: deque[float] = deque(maxlen=TYPICAL)
        self._best_s = math.inf

    def add(self, iteration: int, at_s: float) -> None:
        """Note that the job was at *iteration*; one that it was at before says nothing."""
        if self._last is not None and iteration > self._last[0]:
            self._recent_s.append((at_s - self._last[1]) / (iteration - self._last[0]))
            if len(self._recent_s) == TYPICAL:
                self._best_s = min(self._best_s, median(self._recent_s))
        if self._last is None or iteration > self._last[0]:
            self._last = iteration, at_s

    def begin_run(self) -> None:
        """Forget the present pace: a new run may be on other nodes. The best one is kept."""
        self._last = None
        self._recent_s.clear()

    @property
    def slowdown(self) -> float:
        """How much longer an iteration takes now than at its best; NaN where too little is known."""
        known = len(self._recent_s) == TYPICAL and self._best_s > 0
        return median(self._recent_s) / self._best_s if known else math.nan
