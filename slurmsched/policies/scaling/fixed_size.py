"""Scalings that give each job the GPUs its owner asks for, or none: first come first served, and Tiresias."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...cluster.training import Allocations, TrainingView
from ..contract import scaling
from .ordered import with_synergy
from .placing import fitting, placed

DEMOTED_GPU_S = 57_600.0
"""GPU-seconds of attained service from which a job is in the second queue of Tiresias."""


@scaling("fifo", tuned=partial(with_synergy, "fifo"))
def fifo(view: TrainingView) -> Allocations:
    """Each job has the GPUs it asks for, first come, first served; nothing passes a job that does not fit."""
    gpus, total = view.jobs.gpus, int(view.nodes.gpus.sum())
    runs = np.cumsum(gpus) <= total
    order = np.arange(len(gpus))
    return Allocations(placed(np.where(runs, gpus, 0), view.jobs.held, view.nodes.gpus, order))


@scaling("tiresias")
def tiresias(view: TrainingView) -> Allocations:
    """Two queues by attained service, first come, first served in each; whatever fits runs (Tiresias, NSDI'19).

    Its memo is the moment at which a job came into the second queue.
    """
    jobs = view.jobs
    came_s = jobs.memo[:, 0] if jobs.memo.size else np.full(len(jobs), np.nan)
    came_s = np.where(np.isnan(came_s) & (jobs.ran_s * jobs.gpus >= DEMOTED_GPU_S), view.now_s, came_s)
    order = np.argsort(np.where(np.isnan(came_s), -np.inf, came_s), kind="stable")
    gpus = fitting(jobs.gpus, order, int(view.nodes.gpus.sum()))
    return Allocations(placed(gpus, jobs.held, view.nodes.gpus, order), memo=came_s[:, None])
