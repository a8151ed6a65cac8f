"""Goodput: iterations of the initial batch per second, and the batch that has most of it (Pollux, OSDI'21, section 3).

Loops that compile.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.ties import ABOVE
from ...policies.compiled import compiled, inner
from ...policies.size_choice import gain
from .speed_model import communication_s

_BATCHES = 50  #: sizes that are tried, geometrically from the least to the most
_ROUNDING = 1e-8


@inner
def goodput(
    params: FloatArray,
    sqr: float,
    var: float,
    initial: float,
    place: tuple[int, int],
    batch: tuple[int, int],
) -> float:
    """Return samples of the initial batch per second, on *place* (nodes, GPUs) with *batch* (micro, accumulated)."""
    nodes, gpus = place
    micro, accumulated = batch
    compute_s = params[0] + params[1] * micro
    sync_s = communication_s(params, nodes, gpus)
    gamma = params[6]
    step_s = (compute_s**gamma + sync_s**gamma) ** (1 / gamma) + accumulated * compute_s
    total = gpus * micro * (accumulated + 1)
    scale = total / initial
    return float(total / step_s * gain(sqr, var, scale) / scale)


@compiled
def best_batch(
    params: FloatArray, sqr: float, var: float, limits: IntArray, nodes: int, gpus: int
) -> tuple[float, int, int]:
    """Return the best goodput, and the micro-batch and accumulation that reach it; 0.0 where none is possible.

    *limits* has the initial and the largest batch, and the least and the most samples per GPU and micro-batch.
    """
    initial, most, least_local, most_local = limits
    low, high = float(max(initial, least_local * gpus)), float(most)
    best, micro_of, accumulated_of = 0.0, 0, 0
    if low > high:
        return best, micro_of, accumulated_of
    for number in range(_BATCHES):
        local = low * (high / low) ** (number / (_BATCHES - 1)) / gpus
        accumulated = int(np.ceil(local / most_local - _ROUNDING)) - 1
        if gpus == 1 and local > initial + _ROUNDING:  # the variance of the gradient is measured between micro-batches
            accumulated = max(accumulated, 1)
        micro = int(np.ceil(local / (accumulated + 1) - _ROUNDING))
        if micro < least_local or micro > most_local:
            continue
        value = goodput(params, sqr, var, float(initial), (nodes, gpus), (micro, accumulated))
        if value > best * ABOVE:
            best, micro_of, accumulated_of = value, micro, accumulated
    return best, micro_of, accumulated_of


@compiled
def goodputs_of(
    params: FloatArray, sqr: FloatArray, var: FloatArray, limits: IntArray, configurations: IntArray
) -> FloatArray:
    """Return the best goodput of each job (row) in each of the *configurations* (column): GPU type, nodes and GPUs.

    *params* are per job and type.
    """
    count = configurations.shape[1]
    found = np.zeros((len(params), count))
    for row in range(len(params)):
        for column in range(count):
            kind, nodes, gpus = configurations[0, column], configurations[1, column], configurations[2, column]
            found[row, column] = best_batch(params[row, kind], sqr[row], var[row], limits[row], nodes, gpus)[0]
    return found
