"""The number of nodes over which Slurm spreads the CPUs of a job that names no number of nodes."""

from __future__ import annotations

import numpy as np

from .columns import BoolArray
from .nodes import NodeTable


def fewest_nodes(nodes: NodeTable, allowed: BoolArray, cpus: int, cpus_per_task: int, memory_mib: float) -> int:
    """Return the fewest *allowed* nodes that could hold equal shares of a job's whole tasks and memory.

    1 where no number of them could.
    """
    cpus_of, memory_of = nodes.cpus[allowed], nodes.memory_mib[allowed]
    tasks = -(-cpus // max(cpus_per_task, 1))
    for count in range(1, min(int(allowed.sum()), tasks) + 1):
        share = -(-tasks // count) * max(cpus_per_task, 1)
        if int(np.count_nonzero((cpus_of >= share) & (memory_of >= memory_mib / count))) >= count:
            return count
    return 1
