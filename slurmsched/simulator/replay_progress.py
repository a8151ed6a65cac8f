"""How far a replay has come: told to whoever set PROGRESS in this context, whatever calls lie between."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import numpy as np

from .simulated_cluster import SimulatedCluster
from .slurmctld.state import ARRIVED

STEPS = 100
"""Steps of a replay of stock Slurm between which it is told."""

PROGRESS: ContextVar[Callable[[int, int], None]] = ContextVar("PROGRESS", default=lambda done, total: None)
"""The callback: the jobs that were submitted until now, and all; 0 before anything happens."""


def tell(cluster: SimulatedCluster) -> None:
    """Tell how far *cluster* has come."""
    PROGRESS.get()(int(cluster.model.clock[ARRIVED]), len(cluster.jobs))


def advance_to_end(cluster: SimulatedCluster) -> None:
    """Advance until nothing is left to happen, and tell it on the way."""
    submit_s = cluster.jobs.submit_s
    tell(cluster)
    for part in range(1, STEPS if len(submit_s) > STEPS else 0):
        cluster.advance(float(submit_s[len(submit_s) * part // STEPS]))
        tell(cluster)
    cluster.advance(np.inf)
    tell(cluster)
