"""The use of nodes: their CPUs, memory and GPUs in use, by which running jobs, and which are overloaded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.state import View
from ..cluster.ties import in_points
from ..policies.migration import is_above

RESOURCES = ("CPUs", "memory", "GPUs")
"""The columns of what is in use of a node."""

CPUS, MEMORY, GPUS = range(len(RESOURCES))


@dataclass(frozen=True, eq=False)
class NodeUse:
    """What is in use of each node, and by which running jobs."""

    view: View
    most: float  #: the part of a resource above which a node is overloaded

    @cached_property
    def parts(self) -> FloatArray:
        """The part in use of each resource of each node; NaN where it is not known. CPUs may be above 1."""
        nodes = self.view.nodes
        found = np.full((len(nodes), len(RESOURCES)), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[:, CPUS] = nodes.cpu_load / nodes.cpus
            found[:, MEMORY] = np.clip(1.0 - nodes.free_memory_mib / nodes.memory_mib, 0.0, 1.0)
            found[:, GPUS] = np.bincount(self.node, self.gpu_use, len(nodes)) / nodes.gpus
        return np.where(np.isfinite(found), in_points(found), np.nan)

    @cached_property
    def overloaded(self) -> BoolArray:
        """Whether each resource of each node is overloaded; a node of which nothing is known is not."""
        known = np.nan_to_num(self.parts, nan=0.0)
        return np.array([[is_above(part, 1.0, self.most) for part in row] for row in known.tolist()], dtype=np.bool_)

    @property
    def job(self) -> IntArray:
        """The running job of each part of a job on a node."""
        return self.view.free_gpus.held.job

    @property
    def node(self) -> IntArray:
        """Its node."""
        return self.view.free_gpus.held.node

    @property
    def gpus(self) -> IntArray:
        """Its GPUs there."""
        return self.view.free_gpus.held.gpus

    @cached_property
    def gpu_use(self) -> FloatArray:
        """The GPUs of each part of a job times their measured use; those never measured are taken as idle."""
        return np.asarray(self.gpus * np.nan_to_num(self.view.running.gpu_util[self.job], nan=0.0))

    def nodes_of(self, row: int) -> IntArray:
        """Return the nodes of a running job."""
        return np.asarray(self.node[self.job == row])

    def left_by(self, row: int) -> IntArray:
        """Return the overloaded nodes of a running job."""
        mine = self.nodes_of(row)
        return np.asarray(mine[self.overloaded[mine].any(axis=1)])
