"""The number of nodes over which each waiting job is spread, where it leaves that to Slurm."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.fewest_nodes import fewest_nodes
from ...cluster.jobs import ANY_NODES, JobTable
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.text.gpu_types import several
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
    shapes = np.stack([found.kind, least, jobs.gpus, jobs.cpus, jobs.gpu_type.codes, on_any_number(jobs)])
    distinct, shape = np.unique(shapes, axis=1, return_inverse=True)
    numbers = []
    for kind, fewest, gpus, cpus, code, uneven in distinct.T.tolist():
        allowed, of_type = found.allowed[kind], _gpus_of(nodes, jobs.gpu_type.names[code])
        if uneven:
            numbers.append(_fewest_uneven(of_type[allowed], gpus, nodes.cpus[allowed], cpus, fewest))
        else:
            numbers.append(fewest_nodes(nodes, allowed, cpus, gpus=gpus, least=fewest, gpus_of=of_type))
    return np.array(numbers, dtype=np.int64)[shape.reshape(-1)]


def _fewest_uneven(gpus_of: IntArray, gpus: int, cpus_of: IntArray, cpus: int, least: int) -> int:
    """Return the fewest nodes, *least* or more, that have as many GPUs and CPUs together; *least* where none do."""
    has_gpus, has_cpus = (np.cumsum(np.sort(amounts)[::-1]) for amounts in (gpus_of, cpus_of))
    enough = np.flatnonzero((has_gpus >= gpus) & (has_cpus >= cpus))
    return max(least, int(enough[0]) + 1) if len(enough) else least


def _gpus_of(nodes: NodeTable, gpu_types: str) -> IntArray:
    """Return the GPUs on each node of one of some types, joined as a100+v100; all of them for no type."""
    return np.asarray(np.max([nodes.gpus_of(one) for one in several(gpu_types)], axis=0), dtype=np.int64)


def on_any_number(jobs: JobTable) -> BoolArray:
    """Select the jobs whose GPUs Slurm spreads over as many nodes as it needs at the moment, unevenly if need be.

    It does so with GPUs of the whole job (--gpus) that come without CPUs and memory of their own.
    """
    alone = jobs.per_job & ~jobs.per_task & ~jobs.per_gpu & (jobs.gpu_cpus == 0)
    return np.asarray((jobs.most_nodes >= ANY_NODES) & (jobs.gpus > 0) & alone, dtype=np.bool_)
