"""Choices among numbers of GPUs: the rules of Optimus, Pollux and Sia that resizing and jobs that train share. Pure."""

from __future__ import annotations

import heapq

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.ties import in_ms, in_points
from .compiled import compiled, inner

POLLUX_POWER = -1.0
"""The power of the mean of speed-ups that Pollux (Qiao et al., OSDI'21) has largest."""

SIA_POWER = -0.5
"""That of Sia (Jayaram Subramanya et al., SOSP'23)."""

LEAST = 1e-3  #: of a restart factor, and of a speed-up
_WAITING = 1e3  #: cost of a job without GPUs, over that of the slowest one with some


def divided(
    step_s: FloatArray, left: FloatArray, most: IntArray, total: int, least: IntArray | None = None
) -> IntArray:
    """Return the GPUs of each job, given the seconds of a step on 0, 1, 2, ... GPUs, and the steps left.

    Jobs come by submission; where there are fewer GPUs than jobs, the first have one each. *most* is what each can use.
    With *least* all jobs have that many first, which are no more than *total*.
    """
    if least is None:
        gpus = np.zeros(len(left), dtype=np.int64)
        gpus[:total] = np.minimum(most[:total], 1)
    else:
        gpus = least.copy()
    free = total - int(gpus.sum())
    losses = in_ms(np.diff(step_s, axis=1) * left[:, None])  # of equal ones the earlier job is first
    best = [(losses[row, gpus[row]], row) for row in np.flatnonzero((gpus > 0) & (most > gpus)).tolist()]
    heapq.heapify(best)
    while free > 0 and best and best[0][0] < 0:
        row = best[0][1]
        gpus[row] += 1
        free -= 1
        if gpus[row] < most[row]:
            heapq.heapreplace(best, (losses[row, gpus[row]], row))
        else:
            heapq.heappop(best)
    return gpus


@inner
def gain(sqr: float, var: float, scale: float) -> float:
    """Return how many steps of the initial batch a step of *scale* times that batch is worth.

    *sqr* is the squared norm of the gradient, and *var* its variance with the initial batch. A sample is then worth
    ``gain / scale`` of one in the initial batch: the statistical efficiency.
    """
    below = var / scale + sqr
    return float((var + sqr) / below if below > 0 else 1.0)


def restart_factor(age_s: FloatArray, restarts: IntArray, restart_s: float | FloatArray) -> FloatArray:
    """Return the part of its life so far that a job did not spend on restarts, if it restarts once more."""
    return np.maximum(np.maximum(age_s - restarts * restart_s, 0.0) / (age_s + restart_s), LEAST)


def after_restarts(speedup: FloatArray, restarts: BoolArray, factor: FloatArray) -> FloatArray:
    """Return the speed-ups of each job (row), less its *factor* where it *restarts*; none is 0, so all have powers."""
    after: FloatArray = np.where(restarts, speedup * factor[:, None], speedup)
    return np.maximum(after, LEAST)


def cheapest(costs: FloatArray, gpus: IntArray, most: IntArray, total: int) -> IntArray:
    """Return the size (column of *costs*) of each job, -1 for none, with the least sum of *costs* on *total* GPUs.

    *gpus* are those of each size, *most* those of each job.
    """
    allowed = gpus <= most[:, None]
    waiting = _WAITING * float(costs[allowed].max(initial=1.0))
    return _knapsack(np.where(allowed, in_points(costs), np.inf), gpus, waiting, total)


@compiled
def _knapsack(costs: FloatArray, gpus: IntArray, waiting: float, total: int) -> IntArray:
    """Choose a size for each job by dynamic programming over the GPUs that are left."""
    count, kinds = costs.shape
    least = np.zeros(total + 1)
    chosen = np.full((count, total + 1), -1, dtype=np.int64)
    for row in range(count):
        now = least + waiting
        for kind in range(kinds):
            if costs[row, kind] < waiting:
                for left in range(gpus[kind], total + 1):
                    cost = least[left - gpus[kind]] + costs[row, kind]
                    if cost < now[left]:
                        now[left] = cost
                        chosen[row, left] = kind
        least = now
    found, left = np.full(count, -1, dtype=np.int64), total
    for row in range(count - 1, -1, -1):
        found[row] = chosen[row, left]
        if found[row] >= 0:
            left -= gpus[found[row]]
    return found
