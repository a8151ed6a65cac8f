"""Which pending jobs would run now, by the GPUs we know to be free."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.nodes import NodeTable


def free_gpus(nodes: NodeTable) -> int:
    """GPUs on usable nodes that no job holds."""
    return int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[nodes.usable].sum())


def fill(gpus: IntArray, free: int) -> BoolArray:
    """Which jobs run when each that still fits is started, in the order given (backfill of whatever fits).

    Counts GPUs over the whole cluster: node boundaries, CPUs and memory are Slurm's to judge. Never more than
    ``free`` GPUs in all, each job whole.
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
