"""The number of nodes over which each waiting job is spread, where it leaves that to Slurm."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.fewest_nodes import fewest_nodes
from ...cluster.jobs import JobTable
from ...cluster.nodes import NodeTable, PartitionTable
from .allowed_nodes import allowed_nodes, binding


def spread(jobs: JobTable, nodes: NodeTable, partitions: PartitionTable) -> IntArray:
    """Return the fewest nodes, of those that each job may use, that can each hold an equal part of it.

    They are no fewer than it asks for, and just as many where no number will do.
    """
    least = np.maximum(jobs.nodes, 1)
    try:
        found = allowed_nodes(jobs, nodes, partitions, binding(jobs), jobs.excluded_nodes)
    except (KeyError, ValueError):  # partitions or nodes that changed since the jobs were read
        return least
    shapes = np.stack([found.kind, least, jobs.gpus, jobs.cpus])
    distinct, shape = np.unique(shapes, axis=1, return_inverse=True)
    numbers = [
        fewest_nodes(nodes, found.allowed[kind], cpus, gpus=gpus, least=fewest)
        for kind, fewest, gpus, cpus in distinct.T.tolist()
    ]
    return np.array(numbers, dtype=np.int64)[shape.reshape(-1)]
