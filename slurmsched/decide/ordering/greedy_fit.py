"""Greedy fit: select pending jobs that would run now on the free GPUs."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.nodes import NodeTable


def free_gpus(nodes: NodeTable) -> int:
    """Return the number of free GPUs on usable nodes."""
    return int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[nodes.usable].sum())


def fill(gpus: IntArray, free: int) -> BoolArray:
    """Select the jobs that run if each one that still fits is started, in the given order (unrestricted backfill).

    GPUs are counted over the whole cluster: Slurm checks node boundaries, CPUs and memory. The selected jobs use at
    most ``free`` GPUs.
    """
    runs = np.zeros(len(gpus), dtype=bool)
    rows = np.flatnonzero((gpus > 0) & (gpus <= free))
    while len(rows):
        used = np.cumsum(gpus[rows])
        fits = int(np.searchsorted(used, free, side="right"))
        runs[rows[:fits]] = True
        free -= int(used[fits - 1]) if fits else 0
        rows = rows[fits + 1 :] if free else rows[:0]
        rows = rows[gpus[rows] <= free]
    return runs
