"""The nodes that each job may use, by its partitions, GPU type, features and required nodes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import BoolArray, IntArray, Labels
from ...cluster.exclusions import UNREAD
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.text.hostlist import expand


class PartitionSets(NamedTuple):
    """The distinct lists of partitions that jobs request, each as one set of nodes."""

    of: IntArray  #: of each job
    nodes: BoolArray  #: [set, node]
    tier: IntArray  #: the lowest of each set
    up: BoolArray
    above: BoolArray  #: [set, node] the nodes of its partitions of the highest tier
    split: BoolArray  #: its partitions are of several tiers


class AllowedNodes(NamedTuple):
    """The nodes that each job may use."""

    parts: PartitionSets
    kind: IntArray  #: of each job; jobs of one kind may use the same nodes
    allowed: BoolArray  #: [kind, node]


class Wants(Protocol):
    """The columns of jobs that bind them to nodes."""

    @property
    def partition(self) -> Labels:
        """Comma lists of partitions."""
        ...

    @property
    def gpu_type(self) -> Labels:
        """GPU types; empty for any."""
        ...

    @property
    def features(self) -> Labels:
        """Features, such as ``a&b``; empty for none."""
        ...


def allowed_nodes(
    jobs: Wants, nodes: NodeTable, partitions: PartitionTable, required: Labels | None, excluded: Labels | None = None
) -> AllowedNodes:
    """Group *jobs* into kinds by the nodes they may use; *required* are host lists of nodes that jobs insist on.

    *excluded* are those of nodes that jobs do not use.

    KeyError names a partition that does not exist. Without partitions each job may use all nodes.
    """
    parts = _partition_sets(jobs.partition, nodes, partitions)
    named = required or Labels(np.zeros(len(jobs.partition), dtype=np.int64), ("",))
    barred = excluded or Labels(np.zeros(len(jobs.partition), dtype=np.int64), ("",))
    first, kind = _kinds(jobs.partition, jobs.gpu_type, jobs.features, named, barred)
    allowed = np.ones((max(1, len(first)), len(nodes)), dtype=np.bool_)
    for at, row in enumerate(first.tolist()):
        allowed[at] = parts.nodes[parts.of[row]] & suits(jobs.gpu_type[row], jobs.features[row], nodes)
        if named[row]:
            allowed[at] &= np.isin(list(nodes.name), expand(named[row]))
        if barred[row]:
            allowed[at] &= ~np.isin(list(nodes.name), _known(barred[row]))
    return AllowedNodes(parts, kind, allowed)


def _kinds(*columns: Labels) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct combination of values, and the number of that of each row."""
    kind = columns[0].codes
    for column in columns[1:]:  # several times faster than np.unique over all columns at once
        _, kind = np.unique(kind * len(column.names) + column.codes, return_inverse=True)
    _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
    return first, kind.astype(np.int64)


def _known(names: str) -> tuple[str, ...]:
    """Return the names of a host list; none of one that was not read."""
    return () if names == UNREAD else expand(names)


def suits(gpu_type: str, features: str, nodes: NodeTable) -> BoolArray:
    """Select the *nodes* that have the GPU type and all features (``a&b``) a job requests."""
    right = np.ones(len(nodes), dtype=np.bool_)
    if gpu_type:
        right &= nodes.gpu_type.map([name == gpu_type for name in nodes.gpu_type.names], np.bool_)
    wanted = set(filter(None, features.replace(",", "&").split("&")))
    if wanted:
        right &= nodes.features.map([wanted <= set(name.split(",")) for name in nodes.features.names], np.bool_)
    return right


def _partition_sets(partition_lists: Labels, nodes: NodeTable, partitions: PartitionTable) -> PartitionSets:
    """Return every distinct list of partitions that jobs request; without partitions, one set of all nodes."""
    if not len(partitions):
        whole, yes = np.ones((1, len(nodes)), dtype=np.bool_), np.ones(1, dtype=np.bool_)
        everywhere = np.zeros(len(partition_lists), dtype=np.int64)
        return PartitionSets(everywhere, whole, np.ones(1, dtype=np.int64), yes, whole.copy(), ~yes)
    number = {name: at for at, name in enumerate(partitions.name)}
    inside = np.zeros((len(partitions), len(nodes)), dtype=np.bool_)
    for at, names in enumerate(nodes.partitions):
        for name in filter(None, names.split(",")):
            inside[number[name], at] = True
    used = np.unique(partition_lists.codes)
    members = [np.array([number[name] for name in partition_lists.names[code].split(",")]) for code in used.tolist()]
    tiers = [partitions.tier[rows] for rows in members]
    highest = [rows[tier == tier.max()] for rows, tier in zip(members, tiers, strict=True)]

    def nodes_in(sets: list[IntArray]) -> BoolArray:
        return np.array([inside[rows].any(axis=0) for rows in sets], dtype=np.bool_).reshape(len(used), len(nodes))

    return PartitionSets(
        np.searchsorted(used, partition_lists.codes),
        nodes_in(members),
        np.array([tier.min() for tier in tiers], dtype=np.int64),
        np.array([partitions.up[rows].any() for rows in members], dtype=np.bool_),
        nodes_in(highest),
        np.array([tier.min() < tier.max() for tier in tiers], dtype=np.bool_),
    )
