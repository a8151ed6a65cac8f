"""Nodes that one partition lends to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..nodes import PartitionTable
from ..text.hostlist import expand, fold


@dataclass(frozen=True)
class SetNodes:
    """Set the nodes of a partition. Unlike an Action it concerns no job, and needs the rights of SlurmUser."""

    partition: str
    nodes: str  #: host list, never empty


@dataclass(frozen=True)
class LentNodes:
    """The node list of a partition as we set it, and as its admin set it before."""

    partition: str
    own: tuple[str, ...]  #: node names, the admin's
    given: tuple[str, ...]  #: those that we set last


NodeLists = Mapping[str, tuple[str, ...]]
"""Node names by partition, sorted."""


def members(partitions: PartitionTable, name: str) -> tuple[str, ...]:
    """Return the sorted names of the nodes in partition *name*; empty without such a partition."""
    node_lists = [nodes for each, nodes in zip(partitions.name, partitions.nodes, strict=True) if each == name]
    return tuple(sorted(expand(node_lists[0]))) if node_lists else ()


def changes(current: NodeLists, wanted: NodeLists) -> list[SetNodes]:
    """Return the writes that lead from the *current* nodes of some partitions to those *wanted*.

    All partitions first gain nodes, and only then lose some. At no time, even if the writes stop half-way, is a node in
    none of them.
    """
    differs = [name for name in wanted if set(wanted[name]) != set(current[name])]
    grown = {name: sorted({*wanted[name], *current[name]}) for name in differs}
    first = [SetNodes(name, fold(grown[name])) for name in differs if len(grown[name]) > len(current[name])]
    last = [SetNodes(name, fold(sorted(wanted[name]))) for name in differs if len(grown[name]) > len(wanted[name])]
    return [*first, *last]
