"""The nodes that each job may use, by its partitions, GPU type, features and required nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import BoolArray, IntArray, Labels
from ...cluster.exclusions import UNREAD
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.text.constraint import constraint_of
from ...cluster.text.hostlist import expand, expanded


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
    group: IntArray  #: of each kind, what reservations keep from it (``closed_times.claim_groups``)


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
        """Features, such as ``a&b`` (``cluster.text.constraint``); empty for none."""
        ...


class Placed(Protocol):
    """The columns of jobs that bind them to a number of named nodes."""

    @property
    def required_nodes(self) -> Labels:
        """Host lists; empty for none."""
        ...

    @property
    def nodes(self) -> IntArray:
        """Numbers of nodes, at least."""
        ...


def allowed_nodes(
    jobs: Wants,
    nodes: NodeTable,
    partitions: PartitionTable,
    required: Labels | None,
    excluded: Labels | None = None,
    groups: Labels | None = None,
) -> AllowedNodes:
    """Group *jobs* into kinds by the nodes they may use; *required* are host lists of nodes that jobs insist on.

    *excluded* are those of nodes that jobs do not use. Jobs of different *groups* are of different kinds.

    KeyError names a partition that does not exist. Without partitions each job may use all nodes.
    """
    parts = _partition_sets(jobs.partition, nodes, partitions)
    named = required or Labels(np.zeros(len(jobs.partition), dtype=np.int64), ("",))
    barred = excluded or Labels(np.zeros(len(jobs.partition), dtype=np.int64), ("",))
    apart = () if groups is None else (groups,)
    first, kind = _kinds(jobs.partition, jobs.gpu_type, jobs.features, named, barred, *apart)
    allowed = np.ones((max(1, len(first)), len(nodes)), dtype=np.bool_)
    for at, row in enumerate(first.tolist()):
        allowed[at] = parts.nodes[parts.of[row]] & suits(jobs.gpu_type[row], jobs.features[row], nodes)
        if named[row]:
            allowed[at] &= np.isin(list(nodes.name), expand(named[row]))
        if barred[row]:
            allowed[at] &= ~np.isin(list(nodes.name), _known(barred[row]))
    group = np.zeros(len(allowed), dtype=np.int64)
    if groups is not None:
        group[: len(first)] = groups.codes[first]
    return AllowedNodes(parts, kind, allowed, group)


def binding(jobs: Placed) -> Labels:
    """Return the required nodes of the jobs that use no others; a job on more nodes than these may use any beside."""
    many = jobs.required_nodes.map([_size(text) for text in jobs.required_nodes.names], np.int64)
    beside = (jobs.nodes > many) & (many > 0)
    if not beside.any():
        return jobs.required_nodes
    names = (*jobs.required_nodes.names, "")
    return Labels(np.where(beside, len(names) - 1, jobs.required_nodes.codes), names)


def _size(names: str) -> int:
    """Return the number of nodes in a host list; 0 of one that cannot be read, which binds."""
    return len(expanded(names))


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
    """Select the *nodes* that have the GPU type and the features a job requests, as ``--constraint`` has them."""
    right = np.ones(len(nodes), dtype=np.bool_)
    if gpu_type:
        right &= nodes.of_types(gpu_type)
    elif len(nodes.name.names) < len(nodes):  # with a row for each type of GPU, one of which a job has
        right[:] = False
        right[np.unique(nodes.name.codes, return_index=True)[1]] = True
    if features:
        right &= having(nodes.features, constraint_of(features).allows)
    return right


def having(features: Labels, holds: Callable[[Collection[str]], bool]) -> BoolArray:
    """Select the nodes of whose *features*, comma lists, a test holds; it may also be of their partitions."""
    selected: BoolArray = features.map([holds(set(names.split(","))) for names in features.names], np.bool_)
    return selected


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
