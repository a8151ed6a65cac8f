"""Axes of charts: from values to places, with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_ROUND_S = (
    *(1, 10, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600),
    *(86_400, 3 * 86_400, 7 * 86_400, 28 * 86_400),
)


@dataclass(frozen=True)
class Scale:
    """An axis from *low* to *high* over the places *start* to *end*; values outside come to its ends."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    ticks: tuple[float, ...] = ()

    def place(self, value: float) -> float:
        """Return the place of a value, in pixels with one decimal."""
        low, high, at = (math.log(max(each, self.low)) if self.log else each for each in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.0
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)


def linear(values: Sequence[float], start: float, end: float, *, wanted: int = 5, timed: bool = False) -> Scale:
    """Return an axis that has 0 and all *values*, with about so many ticks at round values, or round times."""
    known = [value for value in values if math.isfinite(value)] or [1.0]
    low, high = min(0.0, *known), max(0.0, *known)
    if low == high:
        high = low + 1.0
    least = (high - low) / wanted
    step = next((float(step) for step in _ROUND_S if timed and step >= least), _round_up(least))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(step * number for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], start, end, ticks=ticks)


def times(values: Sequence[float], start: float, end: float) -> Scale:
    """Return a logarithmic axis of lengths of time that has all *values*, from 10 s on."""
    known = [value for value in values if math.isfinite(value) and value > 0] or [10.0, 3_600.0]
    low = max((tick for tick in _ROUND_S if tick <= max(min(known), 10.0)), default=10.0)
    high = min((tick for tick in _ROUND_S if tick >= max(known)), default=max(known))
    ticks = tuple(float(tick) for tick in _ROUND_S if low <= tick <= high)
    return Scale(float(low), float(max(high, low * 6)), start, end, log=True, ticks=ticks)


def _round_up(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * part for part in (1, 2, 2.5, 5, 10) if power * part >= step * (1 - 1e-9))
