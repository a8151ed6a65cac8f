"""Quantiles of forecast misses by kind of evidence, from which intervals are made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray

ENOUGH = 20  #: misses that a kind of evidence needs for quantiles of its own
_SHARES = np.linspace(0.0, 1.0, 101)
#: With too few misses of any kind: four in five runs within a factor of ten of the forecast.
_GUESS = np.log(10.0) * (2 * _SHARES - 1) / 0.8


@dataclass(frozen=True, eq=False)
class ResidualQuantiles:
    """Quantiles of log(runtime / forecast), one row per kind of evidence."""

    quantiles: FloatArray

    @classmethod
    def of(cls, kinds: IntArray, misses: FloatArray, number: int) -> ResidualQuantiles:
        """Compute the quantiles of *misses* by kind, 0 to *number*; a kind with too few uses those of all kinds."""
        pooled = np.quantile(misses, _SHARES) if len(misses) >= ENOUGH else _GUESS
        rows = [misses[kinds == kind] for kind in range(number)]
        return cls(np.array([np.quantile(row, _SHARES) if len(row) >= ENOUGH else pooled for row in rows]))

    def factor(self, kinds: IntArray, share: float, survived: FloatArray) -> FloatArray:
        """Return the factor that *share* of the runs stay below whose factor exceeds *survived* (0 for all)."""
        with np.errstate(divide="ignore"):
            log_survived = np.log(survived)
        result = np.empty(len(kinds))
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            result[rows] = self._later(self.quantiles[kind], share, log_survived[rows])
        return result

    def fresh(self, kinds: IntArray, share: float) -> FloatArray:
        """Return ``factor`` of jobs that have not started, by one look-up for all."""
        place = share * (len(_SHARES) - 1)
        below = min(int(place), len(_SHARES) - 2)
        low, high = self.quantiles[:, below], self.quantiles[:, below + 1]
        factor: FloatArray = np.exp(low + (high - low) * (place - below)).take(kinds)
        return factor

    @staticmethod
    def _later(quantiles: FloatArray, share: float, log_survived: FloatArray) -> FloatArray:
        gone = np.interp(log_survived, quantiles, _SHARES, left=0.0)
        later = np.maximum(np.interp(gone + share * (1 - gone), _SHARES, quantiles), log_survived)
        # Longer than any run before: assume an even chance to last as long again.
        beyond = log_survived - np.log1p(-share)
        return np.exp(np.where(log_survived >= quantiles[-1], beyond, later))
