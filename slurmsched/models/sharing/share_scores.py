"""The share scores of jobs, from the measured GPU use of earlier runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.jobs import JobTable
from ...cluster.state import ClusterState
from .sharing_model import GpuUse, SharingModel


def scored(state: ClusterState, model: SharingModel) -> ClusterState:
    """Return *state* with the share scores of its measured pending and running jobs."""
    pending, running = (_scored(jobs, model) for jobs in (state.pending, state.running))
    return replace(state, pending=pending, running=running)


def use_of(jobs: JobTable) -> GpuUse:
    """Return the measured GPU use of *jobs*, as the input of the model of share scores."""
    return GpuUse(jobs.gpu_util, jobs.memory_util, jobs.gpu_memory_mib, jobs.amp.astype(np.float64))


def _scored(jobs: JobTable, model: SharingModel) -> JobTable:
    if not jobs.measured.any():
        return jobs
    scores = jobs.share_score.copy()
    measured = np.flatnonzero(jobs.measured)
    scores[measured] = model.score(use_of(jobs.take(measured)))
    return jobs.changed(share_score=scores)
