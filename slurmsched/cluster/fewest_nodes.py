"""The number of nodes over which Slurm spreads a job that names no number of nodes, or only the least."""

from __future__ import annotations

import numpy as np

from .columns import BoolArray, IntArray
from .nodes import NodeTable


def fewest_nodes(
    nodes: NodeTable,
    allowed: BoolArray,
    cpus: int,
    cpus_per_task: int = 1,
    memory_mib: float = 0.0,
    gpus: int = 0,
    least: int = 1,
    gpus_of: IntArray | None = None,
) -> int:
    """Return the fewest *allowed* nodes, *least* or more, that could hold equal shares of a job.

    Shares are of its whole tasks, its memory and its GPUs, of which each node has *gpus_of*, else all of its own.
    *least* where no number of nodes could.
    """
    cpus_of, memory_of = nodes.cpus[allowed], nodes.memory_mib[allowed]
    gpus_of = (nodes.gpus if gpus_of is None else gpus_of)[allowed]
    each = max(cpus_per_task, 1)
    tasks = -(-cpus // each)
    most = len(cpus_of) if gpus else min(len(cpus_of), max(tasks, least))
    for count in range(least, most + 1):
        enough = cpus_of >= -(-tasks // count) * each
        enough &= (memory_of >= memory_mib / count) & (gpus_of >= -(-gpus // count))
        if int(np.count_nonzero(enough)) >= count:
            return count
    return least
