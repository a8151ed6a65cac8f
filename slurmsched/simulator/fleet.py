"""A fleet: the nodes, partitions and QOS that a simulation runs on, in the columns of a real cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cluster.columns import Labels, table_of
from ..cluster.nodes import NodeTable, PartitionTable, QosTable

PLENTY = 1_000_000  #: CPUs of a node of which only its GPUs are known


@dataclass(frozen=True)
class Fleet:
    """What there is to run on; nobody uses any of it yet."""

    nodes: NodeTable
    partitions: PartitionTable
    qos: QosTable

    @classmethod
    def of(cls, count: int, gpus: int) -> Fleet:
        """*count* equal nodes of *gpus* GPUs, open to every job: one pool."""
        return cls(
            nodes_of(count, gpus),
            table_of(PartitionTable, 0, {}, {}),
            table_of(QosTable, 0, {}, {}),
        )

    @property
    def total(self) -> int:
        """All GPUs."""
        return int(self.nodes.gpus.sum())

    @property
    def size(self) -> int:
        """GPUs of the largest node."""
        return int(self.nodes.gpus.max(initial=0))

    @property
    def equal(self) -> bool:
        """Whether every job may use every node and all nodes have as many GPUs."""
        return not len(self.partitions) and bool((self.nodes.gpus == self.size).all())


def nodes_of(count: int, gpus: int, **columns: object) -> NodeTable:
    """Equal nodes n1..n*count*, idle; *columns* of NodeTable say more about them."""
    known: dict[str, object] = {
        "name": Labels.of(f"n{number}" for number in range(1, count + 1)),
        "state": Labels.of(["idle"] * count),
        "gpus": np.full(count, gpus),
    }
    return table_of(NodeTable, count, {"usable": True, "cpus": PLENTY, "memory_mib": float("inf")}, known | columns)
