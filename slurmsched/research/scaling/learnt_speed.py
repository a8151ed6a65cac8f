"""What Optimus learns of a job (Peng et al., EuroSys'18): its convergence and its speed, by non-negative least squares.

The loss after k iterations is ``1 / (a k + b) + c``; a step on K GPUs takes ``a / K + b + c K`` seconds, and d more on
several nodes. All of these are at least 0.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.training import LossCurves
from ...errors import MissingExtra

_FLOORS = 20  #: values of c that are tried, from 0 to the least loss so far
_LONGER = 10.0  #: times its iterations so far; no job is forecast to need more than these


def iterations_left(curves: LossCurves, first_s: FloatArray) -> FloatArray:
    """Return the iterations until each job has its target loss.

    A job with fewer than two reports lasts as long as the others on average, on one GPU, where a step takes *first_s*.
    """
    left = np.full(len(curves.target), np.nan)
    for row in range(len(left)):
        there = np.isfinite(curves.loss[row])
        if np.count_nonzero(there) > 1:
            left[row] = _left(curves.iterations[row, there], curves.loss[row, there], curves.target[row])
    known_s = (left * first_s)[np.isfinite(left)]
    unknown = (float(known_s.mean()) if len(known_s) else 1.0) / first_s
    return np.where(np.isnan(left), unknown, left)


def _left(iterations: FloatArray, loss: FloatArray, target: float) -> float:
    """Return the iterations from the last of *iterations* to the target, at least as many as between the last two."""
    best, until = np.inf, 0.0
    for floor in np.linspace(0.0, float(loss.min()), _FLOORS, endpoint=False):
        slope, start = non_negative(np.stack([iterations, np.ones(len(iterations))], axis=1), 1 / (loss - floor))
        error = float(((1 / np.maximum(slope * iterations + start, 1e-300) + floor - loss) ** 2).sum())
        if error < best:
            reached = target > floor and slope > 0
            best, until = error, (1 / (target - floor) - start) / slope if reached else np.inf
    now = float(iterations[-1])
    return float(np.clip(until - now, now - iterations[-2], _LONGER * now))


def step_seconds(measured: FloatArray, most: int, node_gpus: int) -> FloatArray:
    """Return the seconds of a step on 0, 1, ... *most* GPUs, given those on 1, 2, 4, ... of them; infinite on 0."""
    counts = np.arange(1, most + 1)
    terms = np.stack([1 / counts, np.ones(most), counts, counts > node_gpus], axis=1).astype(np.float64)
    tried = (1 << np.arange(len(measured))) - 1
    return np.concatenate([[np.inf], terms @ non_negative(terms[tried], measured)])


def non_negative(terms: FloatArray, values: FloatArray) -> FloatArray:
    """Return the weights of *terms*, none below 0, with the least squares of relative errors from *values*.

    MissingExtra without scipy.
    """
    if find_spec("scipy") is None:
        raise MissingExtra("scaling 'optimus forecast=learnt' needs scipy", "sim")
    from scipy.optimize import nnls

    scale = np.maximum(terms.max(axis=0), 1e-300)
    weights: FloatArray = nnls(terms / scale / values[:, None], np.ones(len(values)))[0] / scale
    return weights
