"""Parametric families of learning curves, and the value that a curve reaches by them.

The families are those of Domhan et al. (IJCAI'15), which MLFS (CoNEXT'20, section 3.5) extrapolates by, as far as they
have a ceiling. Each is ``c - a g(x)`` with a >= 0: for each shape on a grid the best a and c follow by linear least
squares, so that a fit needs no start and always ends. The Bayesian information criterion weighs the families.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...cluster.columns import FloatArray

_POWERS = np.geomspace(0.05, 3.0, 16)
_RATES = np.geomspace(0.3, 300.0, 12)
_BENDS = (0.5, 0.75, 1.0, 1.5, 2.5)
_SHIFTS = (0.02, 0.1, 0.3, 1.0)
_LEAST_VARIANCE = 1e-8  #: of the residuals: a perfect fit says no more than a very good one

_PARAMETERS = (3, 4, 4, 4, 3)
"""Numbers of fitted parameters of the families, in the order of ``_shapes``."""


@cache
def _grids() -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return two columns of parameters for each family that has two."""
    grids = ((_POWERS[::2], _SHIFTS), (_RATES, _BENDS), (_RATES, _BENDS))
    return tuple(
        (np.repeat(first, len(second))[:, None], np.tile(second, len(first))[:, None]) for first, second in grids
    )


def _shapes(part: FloatArray) -> tuple[FloatArray, ...]:
    """Return the falling shapes g of each family at *part* of the iterations so far, one row per shape."""
    (power, shift), (rate, bend), (hill_rate, hill_bend) = _grids()
    return (
        part ** -_POWERS[:, None],  # power law
        (part + shift) ** -power,  # shifted power law
        np.exp(-((rate * part) ** bend)),  # Weibull, Janoschek, exponential
        1 / (1 + (hill_rate * part) ** hill_bend),  # Hill, Morgan-Mercer-Flodin, log power
        1 / np.log(2 + _RATES[:, None] * part),  # inverse logarithm
    )


def predicted_value(iterations: FloatArray, values: FloatArray, at: float) -> float:
    """Return the value of the curve at iteration *at*, which the families predict from *values* in 0..1.

    *iterations* are positive and rise. The prediction is not below the last value, nor above 1 unless that is.
    """
    last = iterations[-1]
    shapes = _shapes(np.append(iterations, at) / last)
    centred = values - values.mean()
    criteria, predictions = np.empty(len(shapes)), np.empty(len(shapes))
    for family, shape in enumerate(shapes):
        past, future = shape[:, :-1], shape[:, -1]
        mean = past.mean(axis=1)
        moved = past - mean[:, None]
        slope = np.minimum(moved @ centred / np.maximum((moved * moved).sum(axis=1), 1e-12), 0.0)
        residuals = centred - slope[:, None] * moved
        squares = (residuals * residuals).mean(axis=1)
        best = int(np.argmin(squares))
        predictions[family] = values.mean() + slope[best] * (future[best] - mean[best])
        criteria[family] = len(values) * np.log(squares[best] + _LEAST_VARIANCE)
    criteria += np.log(len(values)) * np.array(_PARAMETERS)
    weights = np.exp(-0.5 * (criteria - criteria.min()))
    return float(np.clip(weights @ np.minimum(predictions, 1.0) / weights.sum(), values[-1], max(1.0, values[-1])))
