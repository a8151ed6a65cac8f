"""The speed that two jobs keep on the same GPUs, by the sum of their GPU utilisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray
from ..ebm.additive import isotonic

PLACES = 5  #: decimal places of a stored sum or speed


@dataclass(frozen=True, eq=False)
class SpeedCurve:
    """The speed that a job keeps beside another, linear between knots; it never rises with the sum."""

    sums: FloatArray  #: of the GPU utilisations, rising
    speeds: FloatArray  #: 0..1, relative to alone

    @classmethod
    def fit(cls, sums: FloatArray, speeds: FloatArray, weights: FloatArray | None = None) -> Self:
        """Fit the curve closest to measured *speeds* (isotonic regression); ValueError without any.

        The knots are the ends of the steps. Each speed counts by its weight; without *weights* alike.
        """
        if not len(sums):
            raise ValueError("a speed curve needs measured pairs")
        order = np.argsort(sums, kind="stable")
        at = np.round(sums[order], PLACES)
        each = np.ones(len(order)) if weights is None else weights[order]
        speed = np.round(-isotonic(-speeds[order], each), PLACES)
        step = np.diff(speed) != 0.0
        ends = np.append(True, step) | np.append(step, True)
        at, speed = at[ends], speed[ends]
        last = np.append(np.diff(at) != 0.0, True)  # of equal sums the lowest speed holds
        return cls(at[last], speed[last])

    @classmethod
    def of(cls, sums: Sequence[float], speeds: Sequence[float]) -> Self:
        """Return the curve with these knots; ValueError unless sums rise, and speeds are above 0 and never rise."""
        curve = cls(np.array(sums, dtype=np.float64), np.array(speeds, dtype=np.float64))
        falls = curve.speeds.ndim == 1 and bool((np.diff(curve.speeds, append=0.0) <= 0.0).all())
        if not len(curve.sums) or curve.sums.shape != curve.speeds.shape or not falls or curve.speeds[-1] <= 0.0:
            raise ValueError("a speed curve needs a speed above 0 for each sum, and speeds that never rise")
        if (np.diff(curve.sums) <= 0.0).any():
            raise ValueError("the sums of a speed curve rise")
        return curve

    @classmethod
    def flat(cls, speed: float) -> Self:
        """Return the curve to use where no pair was measured."""
        return cls(np.zeros(1), np.full(1, speed))

    def speed(self, sums: FloatArray) -> FloatArray:
        """Return the speed at each sum, linear between knots; 0 where a utilisation was not measured."""
        interpolated: FloatArray = np.interp(sums, self.sums, self.speeds)
        speed: FloatArray = np.where(np.isfinite(sums), interpolated, 0.0)
        return speed

    def knots(self) -> tuple[tuple[float, float], ...]:
        """Return the knots as pairs (sum, speed)."""
        return tuple(zip(self.sums.tolist(), self.speeds.tolist(), strict=True))
