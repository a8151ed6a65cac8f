"""What Slurm lets one job have on each node in a partition, if nothing else ran there. Pure.

The columns ``cpus`` and ``memory_mib`` of nodes are without the cores and the memory that a node keeps for itself
(CoreSpecCount, CPUSpecList, MemSpecLimit); partitions take off more of them (MaxCPUsPerNode, MaxMemPerNode,
MaxMemPerCPU, slurm.conf(5)).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .columns import BoolArray, FloatArray, IntArray
from .node_request import NodeRequest
from .nodes import NodeTable, PartitionTable


class NodePart(NamedTuple):
    """What a job asks for of one node."""

    cpus: float
    memory_mib: float
    exclusive: bool = False  #: takes all CPUs of the node
    cpu_mib: float = 0.0  #: memory for each of these, of a job that takes all of them and asks for memory so


@dataclass(frozen=True, eq=False)
class MayHave:
    """What one job may have on each node; nothing on nodes outside the partition."""

    inside: BoolArray
    cpus: IntArray
    memory_mib: FloatArray
    cpu_memory_mib: float = np.inf  #: with more for each CPU, Slurm gives the job more CPUs, and charges them

    def take(self, rows: IntArray) -> MayHave:
        """Return the same of the nodes in *rows*."""
        return MayHave(self.inside[rows], self.cpus[rows], self.memory_mib[rows], self.cpu_memory_mib)

    def charged_cpus(self, cpus: float, memory_mib: float) -> float:
        """Return the CPUs of a node that a job has, and pays for, that asks for so much of it."""
        return max(cpus, float(np.ceil(memory_mib / self.cpu_memory_mib - 1e-9)))

    def holds(self, cpus: float, memory_mib: float, cpu_mib: float = 0.0) -> BoolArray:
        """Select the nodes on which a job may have so much, and *cpu_mib* for each CPU that it may have."""
        enough = (self.cpus >= self.charged_cpus(cpus, memory_mib)) & (self.memory_mib >= memory_mib)
        return np.asarray(self.inside & enough & (self.memory_mib >= self.cpus * cpu_mib), dtype=np.bool_)

    def takes_as_written(self, request: NodeRequest, nodes: int) -> bool:
        """Return whether Slurm leaves the CPUs of *request*, on so many *nodes*, as they are."""
        memory_mib = request.node_memory_mib(nodes)
        least = min(request.per_node, request.node_cpus(nodes))
        return self.charged_cpus(0.0, memory_mib) <= least

    def of_nodes(self, many: int, nodes: BoolArray) -> tuple[int, float]:
        """Return the CPUs and the memory of which each of *many* of these *nodes* has as much; 0 without so many."""
        if int(nodes.sum()) < many:
            return 0, 0.0
        cpus, memory_mib = np.sort(self.cpus[nodes]), np.sort(self.memory_mib[nodes])
        return int(cpus[-many]), float(memory_mib[-many])


@dataclass(frozen=True, eq=False)
class Allowances:
    """Nodes and partitions, asked for what one job after the other may have."""

    nodes: NodeTable
    partitions: PartitionTable
    _known: dict[tuple[str, bool], MayHave] = field(default_factory=dict)
    _everywhere: dict[str, MayHave] = field(default_factory=dict)

    def on(self, partition: str, *, exclusive: bool = False) -> MayHave:
        """Return what a job may have in one *partition*; an *exclusive* one takes all CPUs of a node or none."""
        key = partition, exclusive
        if key not in self._known:
            self._known[key] = self._of(partition, exclusive)
        return self._known[key]

    def each(self, partitions: str, *, exclusive: bool = False) -> list[MayHave]:
        """Return what a job may have in each of its *partitions*, a comma list: it runs in one of them."""
        return [self.on(name, exclusive=exclusive) for name in partitions.split(",")]

    def everywhere(self, partitions: str) -> MayHave:
        """Return what a job may have on a node in whichever of its *partitions* it starts there.

        Slurm holds what is written of a job to the limits of the first of them, and starts it in any (22.05).
        """
        if partitions not in self._everywhere:
            found, nodes = self.each(partitions), self.nodes
            cpus = np.min([np.where(one.inside, one.cpus, nodes.cpus) for one in found], axis=0)
            memory_mib = np.min([np.where(one.inside, one.memory_mib, nodes.memory_mib) for one in found], axis=0)
            inside = np.logical_or.reduce([one.inside for one in found])
            cpu_memory_mib = min(one.cpu_memory_mib for one in found)
            self._everywhere[partitions] = MayHave(inside, cpus, memory_mib, cpu_memory_mib)
        return self._everywhere[partitions]

    def holding(self, partitions: str, part: NodePart) -> BoolArray:
        """Select the nodes on which a job may have its *part*, by partition: [partition, node]."""
        each = self.each(partitions, exclusive=part.exclusive)
        return np.array([one.holds(part.cpus, part.memory_mib, part.cpu_mib) for one in each])

    def enough(self, partitions: str, many: int, part: NodePart, among: BoolArray) -> bool:
        """Return whether *many* nodes *among* some, all in one of its *partitions*, may give a job such a *part*."""
        return bool(((self.holding(partitions, part) & among).sum(axis=1) >= many).any())

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.partitions.name)}

    def _of(self, partition: str, exclusive: bool) -> MayHave:
        nodes, row = self.nodes, self._rows.get(partition)
        inside = np.ones(len(nodes), dtype=np.bool_)
        if any(nodes.partitions.names):
            members = [partition in names.split(",") for names in nodes.partitions.names]
            inside = nodes.partitions.map(members, np.bool_)
        most_cpus = int(self.partitions.node_cpus[row]) if row is not None else 0
        most_mib = float(self.partitions.node_memory_mib[row]) if row is not None else 0.0
        each_mib = float(self.partitions.cpu_memory_mib[row]) if row is not None else 0.0
        cpus = np.where(inside, nodes.cpus, 0)
        if most_cpus:
            cpus = np.where(cpus > most_cpus, 0, cpus) if exclusive else np.minimum(cpus, most_cpus)
        memory_mib = np.minimum(nodes.memory_mib, most_mib or np.inf)
        memory_mib = np.minimum(memory_mib, cpus * each_mib if each_mib else np.inf)
        return MayHave(inside, cpus, np.where(inside, memory_mib, 0.0), each_mib or np.inf)
