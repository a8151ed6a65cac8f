"""The share scores of jobs, from the measured GPU use of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.filling import NewColumns
from ...cluster.jobs import JobTable
from ...cluster.state import ClusterState
from .sharing_model import GpuUse, SharingModel


def scores_of(state: ClusterState, model: SharingModel) -> NewColumns:
    """Return the share scores of the measured pending and running jobs of *state*."""
    return {name: _scores(jobs, model) for name, jobs in (("pending", state.pending), ("running", state.running))}


def use_of(jobs: JobTable) -> GpuUse:
    """Return the measured GPU use of *jobs*, as the input of the model of share scores."""
    return GpuUse(jobs.gpu_util, jobs.memory_util, jobs.gpu_memory_mib, jobs.amp.astype(np.float64))


def _scores(jobs: JobTable, model: SharingModel) -> Mapping[str, IntArray]:
    if not jobs.measured.any():
        return {}
    scores = jobs.share_score.copy()
    measured = np.flatnonzero(jobs.measured)
    scores[measured] = model.score(use_of(jobs.take(measured)))
    return {"share_score": scores}
