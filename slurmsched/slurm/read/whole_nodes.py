"""The GPUs of running jobs that have whole nodes: they have all of a node, whatever they asked for."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import Labels
from ...cluster.jobs import JobTable
from ...cluster.nodes import NodeTable
from ...cluster.text.hostlist import expand


def with_gpus_of_nodes(running: JobTable, nodes: NodeTable) -> JobTable:
    """Return *running* with the GPUs in use on the nodes of jobs that have these alone, and their type.

    Slurm says it of the job itself only where AccountingStorageTRES has gres/gpu.
    """
    alone = np.flatnonzero(running.exclusive & running.node_list.nonempty())
    if not len(alone):
        return running
    rows = {name: row for row, name in enumerate(nodes.name)}
    gpus, kinds = running.gpus.copy(), list(running.gpu_type)
    for row in alone.tolist():
        its = [rows[name] for name in expand(running.node_list[row]) if name in rows]
        used = int(nodes.gpus_used[its].sum())
        if used > gpus[row]:
            gpus[row], kinds[row] = used, kinds[row] or next((nodes.gpu_type[at] for at in its if nodes.gpus[at]), "")
    return running.changed(gpus=gpus, gpu_type=Labels.of(kinds))
