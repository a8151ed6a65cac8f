"""Optimus (Peng et al., EuroSys'18): one GPU each, then each further one where it shortens the remaining time most."""

from __future__ import annotations

import heapq

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import Allocations, TrainingView
from ..contract import scaling
from .placing import placed


@scaling("optimus", needs=("step_times",))
def optimus(view: TrainingView) -> Allocations:
    """One GPU for each job, then one at a time where it shortens a job's remaining time most (Optimus, EuroSys'18)."""
    jobs = view.jobs
    assert view.step_times is not None
    gpus = divided(view.step_times.seconds, jobs.left, jobs.most_gpus, int(view.nodes.gpus.sum()))
    return Allocations(placed(gpus, jobs.held, view.nodes.gpus, np.argsort(gpus, kind="stable")))


def divided(step_s: FloatArray, left: FloatArray, most: IntArray, total: int) -> IntArray:
    """Return the GPUs of each job, given the seconds of a step on 0, 1, 2, ... GPUs, and the steps left.

    Jobs come by submission; where there are fewer GPUs than jobs, the first have one each. *most* is what each can use.
    """
    gpus = np.zeros(len(left), dtype=np.int64)
    gpus[:total] = np.minimum(most[:total], 1)
    free = total - int(gpus.sum())
    losses = np.diff(step_s, axis=1) * left[:, None]  # of equal jobs equal to the last bit: the earlier one is first
    best = [(losses[row, 1], row) for row in np.flatnonzero((gpus == 1) & (most > 1)).tolist()]
    heapq.heapify(best)
    while free and best and best[0][0] < 0:
        row = best[0][1]
        gpus[row] += 1
        free -= 1
        if gpus[row] < most[row]:
            heapq.heapreplace(best, (losses[row, gpus[row]], row))
        else:
            heapq.heappop(best)
    return gpus
