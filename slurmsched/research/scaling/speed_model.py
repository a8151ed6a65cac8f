"""The seconds of an optimiser step by nodes, GPUs and micro-batch: seven parameters, fitted to what was measured.

Computing takes ``alpha_c + beta_c x micro``. Communication takes ``LEAST`` on one GPU, on one node
``alpha_r + beta_r x (GPUs - 2)``, on several ``alpha_n + beta_n x (GPUs - 2)``. The two overlap: a step takes their
norm of order gamma (Pollux, OSDI'21, section 3.2). Loops that compile.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import compiled, inner

PARAMETERS = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")
LEAST, MOST_GAMMA = 1e-8, 10.0
_STARTS = np.array([[0.25, 0.5, 0.25, 0.5, 0.25, 0.5, 1.001], [0.01, 0.9, 0.1, 0.01, 0.05, 0.01, 1.001]])
"""Where the search begins without earlier parameters, over their scale; the objective has several valleys."""

_MORE = 1.1  #: communication between nodes is taken to cost so much more than on one until it was measured
_STEPS = 200
_CLOSE = 1e-9


def fitted(
    nodes: IntArray, gpus: IntArray, micro: IntArray, compute_s: FloatArray, step_s: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the parameters that fit measured steps best, a row per measured configuration.

    *start* are earlier parameters, or an empty array. The objective is the root mean square error of log compute
    seconds and of log step seconds, with a little for gamma above 1 and for communication that grows with GPUs. What
    was not measured has the prior: communication costs nothing, and between nodes no less than on one.
    """
    several, wide = nodes > 1, gpus > 2
    free = np.ones(7, dtype=np.bool_)
    fixed = np.full(7, LEAST)
    if np.all(micro == micro[0]):
        free[0], fixed[0] = False, float(compute_s.mean()) / 2
    for place, there in ((2, several), (4, ~several & (gpus > 1))):
        free[place], free[place + 1] = bool(there.any()), bool((there & wide).any())
    scale = np.array([1.0, 1.0 / micro.mean(), 1.0, 0.125, 1.0, 0.125, 0.0]) * step_s.mean()
    scale[6] = 1.0
    points = np.stack([gpus.astype(np.float64), micro.astype(np.float64), np.log(compute_s), np.log(step_s)])
    starts = [start] if len(start) else [shares * scale for shares in _STARTS]
    tries = [_minimised(np.where(free, one, fixed), scale, free, several, points) for one in starts]
    found = min(tries, key=lambda one: objective(one, several, points))
    if not several.any():
        found[2:4] = np.maximum(found[2:4], _MORE * found[4:6])
    return found


@inner
def communication_s(params: FloatArray, nodes: int, gpus: int) -> float:
    """Return the seconds of communication of a step."""
    if gpus < 2:
        return LEAST
    place = 2 if nodes > 1 else 4
    return float(params[place] + params[place + 1] * (gpus - 2))


@compiled
def objective(params: FloatArray, several: BoolArray, points: FloatArray) -> float:
    """Return the error of *params* on *points*: rows of GPUs, micro-batch, log compute and log step seconds."""
    computed, stepped = 0.0, 0.0
    gamma = params[6]
    count = points.shape[1]
    for at in range(count):
        compute_s = params[0] + params[1] * points[1, at]
        sync_s = communication_s(params, 2 if several[at] else 1, int(points[0, at]))
        computed += (np.log(compute_s) - points[2, at]) ** 2
        log_step = np.log(compute_s**gamma + sync_s**gamma) / gamma
        stepped += (log_step - points[3, at]) ** 2
    growth = (params[3] / params[2]) ** 2 + (params[5] / params[4]) ** 2
    return float(np.sqrt(computed / count) + np.sqrt(stepped / count) + 1e-3 * (gamma - 1) ** 2 + 1e-2 * growth)


@inner
def _gradient(params: FloatArray, several: BoolArray, points: FloatArray, slope: FloatArray) -> float:
    """Fill *slope* with the derivatives of the objective, and return its value."""
    computed, stepped = 0.0, 0.0
    by_compute, by_step = np.zeros(7), np.zeros(7)
    gamma = params[6]
    count = points.shape[1]
    for at in range(count):
        micro, gpus = points[1, at], points[0, at]
        compute_s = params[0] + params[1] * micro
        off = np.log(compute_s) - points[2, at]
        computed += off * off
        by_compute[0] += off / compute_s
        by_compute[1] += off / compute_s * micro
        if gpus < 2:
            rest = np.log(compute_s) - points[3, at]
            stepped += rest * rest
            by_step[0] += rest / compute_s
            by_step[1] += rest / compute_s * micro
            continue
        place = 2 if several[at] else 4
        sync_s = params[place] + params[place + 1] * (gpus - 2)
        powers = compute_s**gamma, sync_s**gamma
        total = powers[0] + powers[1]
        log_step = np.log(total) / gamma
        rest = log_step - points[3, at]
        stepped += rest * rest
        by_step[0] += rest * powers[0] / compute_s / total
        by_step[1] += rest * powers[0] / compute_s / total * micro
        by_step[place] += rest * powers[1] / sync_s / total
        by_step[place + 1] += rest * powers[1] / sync_s / total * (gpus - 2)
        mixed = (powers[0] * np.log(compute_s) + powers[1] * np.log(sync_s)) / total
        by_step[6] += rest * (mixed - log_step) / gamma
    error, other = np.sqrt(computed / count), np.sqrt(stepped / count)
    for place in range(7):
        slope[place] = by_compute[place] / (count * max(error, _CLOSE)) + by_step[place] / (count * max(other, _CLOSE))
    slope[6] += 2e-3 * (gamma - 1)
    growth = 0.0
    for place in (2, 4):
        ratio = params[place + 1] / params[place]
        growth += ratio * ratio
        slope[place + 1] += 2e-2 * ratio / params[place]
        slope[place] -= 2e-2 * ratio * ratio / params[place]
    return float(error + other + 1e-3 * (gamma - 1) ** 2 + 1e-2 * growth)


@compiled
def _minimised(
    start: FloatArray, scale: FloatArray, free: BoolArray, several: BoolArray, points: FloatArray
) -> FloatArray:
    """Minimise the objective over the *free* parameters within their bounds, by BFGS projected on these."""
    size = 7
    params, slope, new_slope, trial = start.copy(), np.zeros(size), np.zeros(size), np.zeros(size)
    value = _gradient(params, several, points, slope)
    inverse = np.eye(size)
    moves = np.zeros(size, np.bool_)
    direction = np.zeros(size)
    fresh = True
    for _ in range(_STEPS):
        for place in range(size):
            low = 1.0 if place == size - 1 else LEAST
            pinned = (params[place] <= low and slope[place] > 0) or (
                place == size - 1 and params[place] >= MOST_GAMMA and slope[place] < 0
            )
            moves[place] = free[place] and not pinned
        descent = 0.0
        for place in range(size):
            direction[place] = 0.0
            if moves[place]:
                for other in range(size):
                    if moves[other]:
                        direction[place] -= inverse[place, other] * slope[other] * scale[other]
                descent += direction[place] * slope[place] * scale[place]
        if descent >= -1e-16:
            if fresh:
                break
            inverse, fresh = np.eye(size), True
            continue
        width = 1.0
        if fresh:
            longest = np.max(np.abs(direction))
            width = min(1.0, 0.1 / longest)
        better = False
        for _ in range(30):
            for place in range(size):
                low = 1.0 if place == size - 1 else LEAST
                trial[place] = max(params[place] + width * direction[place] * scale[place], low)
            trial[size - 1] = min(trial[size - 1], MOST_GAMMA)
            new_value = _gradient(trial, several, points, new_slope)
            if new_value <= value + 1e-4 * width * descent:
                better = True
                break
            width *= 0.4
        if not better:
            if fresh:
                break
            inverse, fresh = np.eye(size), True
            continue
        gained = value - new_value
        _update(inverse, (trial - params) / scale, (new_slope - slope) * scale)
        params[:], slope[:], value, fresh = trial, new_slope, new_value, False
        if gained < 1e-8 * (1e-3 + value):
            break
    return params


@inner
def _update(inverse: FloatArray, step: FloatArray, change: FloatArray) -> None:
    """Update the estimate of the inverse Hessian (BFGS), unless the curvature along *step* is not positive."""
    curved = np.dot(step, change)
    if curved <= 1e-14:
        return
    turned = inverse @ change
    factor = (1 + np.dot(change, turned) / curved) / curved
    for row in range(len(step)):
        for column in range(len(step)):
            inverse[row, column] += (
                factor * step[row] * step[column] - (turned[row] * step[column] + step[row] * turned[column]) / curved
            )
