"""Pools of nodes: partitions that have nodes in common."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import IntArray, Labels
from ..cluster.nodes import NodeTable


class NodePools:
    """Pools of nodes: partitions are of one pool if they have nodes in common."""

    def __init__(self, nodes: NodeTable) -> None:
        self._number: dict[str, int] = {}
        for number, names in enumerate(text.split(",") for text in nodes.partitions.names):
            joined = {self._number[name] for name in names if name in self._number}
            self._number |= {name: number for name, old in self._number.items() if old in joined}
            self._number |= dict.fromkeys(names, number)
        self.of_nodes = self.of(nodes.partitions)  #: the pool of each node

    def of(self, partitions: Labels) -> IntArray:
        """Return the pool of the first of each partitions; -1 for a partition without nodes.

        On a cluster without partitions all nodes are one pool.
        """
        if set(self._number) == {""}:
            return np.full(len(partitions), self._number[""], dtype=np.int64)
        return partitions.map([self._number.get(text.split(",")[0], -1) for text in partitions.names], np.int64)
