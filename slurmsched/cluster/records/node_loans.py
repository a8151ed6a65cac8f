"""Nodes that one partition lends to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..nodes import PartitionTable
from ..text.hostlist import expand, fold


@dataclass(frozen=True)
class SetNodes:
    """Give a partition just these nodes. Unlike an Action it is about no job, and takes the rights of SlurmUser."""

    partition: str
    nodes: str  #: host list, never empty


@dataclass(frozen=True)
class LentNodes:
    """What we made of the node list of a partition, and what its admin had made of it before."""

    partition: str
    own: tuple[str, ...]  #: node names, the admin's
    given: tuple[str, ...]  #: those we asked for last


NodeLists = Mapping[str, tuple[str, ...]]
"""Node names by partition, sorted."""


def members(partitions: PartitionTable, name: str) -> tuple[str, ...]:
    """The names of the nodes in partition *name*, sorted; none where there is no such partition with nodes."""
    node_lists = [nodes for each, nodes in zip(partitions.name, partitions.nodes, strict=True) if each == name]
    return tuple(sorted(expand(node_lists[0]))) if node_lists else ()


def changes(current: NodeLists, wanted: NodeLists) -> list[SetNodes]:
    """The writes that lead from the nodes *current* in some partitions to those *wanted*.

    Partitions get what they want and keep what they have before any gives a node up, so that at no moment, nor if
    nothing more is written, a node is in none of them.
    """
    differs = [name for name in wanted if set(wanted[name]) != set(current[name])]
    grown = {name: sorted({*wanted[name], *current[name]}) for name in differs}
    first = [SetNodes(name, fold(grown[name])) for name in differs if len(grown[name]) > len(current[name])]
    last = [SetNodes(name, fold(sorted(wanted[name]))) for name in differs if len(grown[name]) > len(wanted[name])]
    return [*first, *last]
