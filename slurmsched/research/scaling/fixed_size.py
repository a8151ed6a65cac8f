"""Scalings that give each job the GPUs its owner asks for, or none: first come first served, and Tiresias."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...cluster.training import Allocations, TrainingView
from ...policies.contract import scaling
from .ordered import with_synergy
from .placing import all_or_none

DEMOTED_GPU_S = 57_600.0
"""GPU-seconds of attained service from which a job is in the second queue of Tiresias."""


@scaling("fifo", tuned=partial(with_synergy, "fifo"))
def fifo(view: TrainingView) -> Allocations:
    """Each job has the GPUs it asks for, first come, first served; nothing passes a job that does not fit."""
    return Allocations(all_or_none(view, np.arange(len(view.jobs)), passing=False))


@scaling("tiresias")
def tiresias(view: TrainingView) -> Allocations:
    """Two queues by attained service, first come, first served in each; whatever fits runs (Tiresias, NSDI'19).

    Its memo is the moment at which a job came into the second queue.
    """
    jobs = view.jobs
    came_s = jobs.memo[:, 0] if jobs.memo.size else np.full(len(jobs), np.nan)
    came_s = np.where(np.isnan(came_s) & (jobs.ran_s * jobs.gpus >= DEMOTED_GPU_S), view.now_s, came_s)
    order = np.argsort(np.where(np.isnan(came_s), -np.inf, came_s), kind="stable")
    return Allocations(all_or_none(view, order), memo=came_s[:, None])
