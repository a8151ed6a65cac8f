"""Axes of charts: from values to places, with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ROUND_S = (
    *(1, 10, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600),
    *(86_400, 3 * 86_400, 7 * 86_400, 28 * 86_400, 84 * 86_400, 364 * 86_400),
)
_TICKS = 9
_NARROW = 0.8  #: decades; on a shorter log axis, even steps look even


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


@dataclass(frozen=True)
class Axis:
    """What an axis shows: its name, its values in words, and the scale that fits values between two places."""

    name: str
    told: Callable[[float], str]
    fit: Callable[[Sequence[float], float, float], Scale]


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


def ratios(values: Sequence[float], start: float, end: float, *, room: float = 0.22) -> Scale:
    """Return a logarithmic axis that has 1 and all *values* above 0, with *room* at both ends as a part of it."""
    logs = [math.log10(value) for value in values if math.isfinite(value) and value > 0]
    widest = max([0.05, *map(abs, logs)])
    low, high = min([0.0, *logs]) - room * widest, max([0.0, *logs]) + room * widest
    return Scale(10.0**low, 10.0**high, start, end, log=True, ticks=tuple(_ratio_ticks(low, high)))


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Return round ratios between 10**low and 10**high: as many as are legible beside each other."""
    least, most = 10.0**low, 10.0**high
    if high - low < _NARROW:
        step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if (most - least) / step <= _TICKS)
        return [round(tick * step, 2) for tick in range(math.ceil(least / step), math.floor(most / step) + 1)]
    decades = [10.0**decade for decade in range(math.ceil(low), math.floor(high) + 1)]
    ticks = [step * decade for decade in (decades[0] / 10, *decades) for step in (1, 2, 5)]
    shown = [tick for tick in ticks if least <= tick <= most]
    return shown if len(shown) <= _TICKS else decades[:: math.ceil(len(decades) / _TICKS)]


def _round_up(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * part for part in (1, 2, 2.5, 5, 10) if power * part >= step * (1 - 1e-9))
