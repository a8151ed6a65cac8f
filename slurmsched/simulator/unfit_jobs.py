"""Jobs that could never run on a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cluster.text.plural import count
from .cluster_spec import ClusterSpec
from .machine.controller import UnfitJob, misfits
from .setup import Setup
from .workload.workload import Workload


def unfit(jobs: Workload, fleet: ClusterSpec, setups: Sequence[Setup]) -> list[UnfitJob]:
    """Find jobs that could never run on *fleet* under one of *setups*; ConfigError for partitions it lacks."""
    if fleet.equal and all(setup.executor in ("direct", "tasks") for setup in setups):
        return too_large(jobs, fleet)
    return misfits(jobs, fleet)


def too_large(jobs: Workload, fleet: ClusterSpec) -> list[UnfitJob]:
    """Find jobs that ask for more GPUs than there are."""
    rows = np.flatnonzero(jobs.gpus > fleet.total).tolist()
    asks = [f"asks for {count(int(jobs.gpus[row]), 'GPU')} and the cluster has {fleet.total}" for row in rows]
    return list(map(UnfitJob, rows, asks))
