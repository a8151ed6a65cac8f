"""Nodes that one partition lends to another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..text.hostlist import expand, fold

if TYPE_CHECKING:  # commands that name actions start without numpy
    from ..nodes import PartitionTable


@dataclass(frozen=True)
class SetNodes:
    """Set the nodes of a partition: one step of a move, which needs the rights of SlurmUser."""

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


def own_lists(loans: tuple[LentNodes, ...], current: NodeLists) -> NodeLists:
    """Return the nodes that an admin gave each partition *current*, where some are *loans*.

    The admin's later changes hold: nodes that Slurm shows as added to a partition, or removed from both.
    """
    own = {one.partition: set(one.own) for one in loans if one.partition in current}
    if own.keys() != current.keys():
        return current
    theirs, there = set().union(*own.values()), set().union(*current.values())
    return {name: tuple(sorted((own[name] & there) | (set(current[name]) - theirs))) for name in current}


def lent_lists(
    loans: tuple[LentNodes, ...], partitions: PartitionTable, nodes: Collection[str]
) -> tuple[NodeLists, NodeLists]:
    """Return the present and the own nodes of the partitions of *loans*; *nodes* are those that Slurm shows.

    A partition that Slurm does not show, or without any node of its own left, is in neither.
    """
    there, known = [one for one in loans if one.partition in partitions.name.names], set(nodes)
    current = {one.partition: members(partitions, one.partition) for one in there}
    own = dict(own_lists(loans, {name: lent for name, lent in current.items() if lent}))
    own |= {one.partition: tuple(sorted(set(one.own))) for one in there if not current[one.partition]}
    # Given a list with one unknown name, Slurm drops every node of it (observed on 22.05).
    own = {name: tuple(node for node in names if node in known) for name, names in own.items()}
    return {name: current[name] for name in own if own[name]}, {name: names for name, names in own.items() if names}


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
