"""Nodes and partitions from sinfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...cluster.columns import Labels, declared, table_of
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.power_saving import without_power
from ...cluster.sinfo_values import or_empty
from ...cluster.text.hostlist import fold
from ..versions import UNUSABLE_NODE
from .records import RecordColumns

FIELDS = (
    "NodeList", "PartitionName", "Partition", "PriorityTier", "Available", "Time", "DefaultTime", "StateComplete",
    "CPUs", "CPUsState", "Memory", "AllocMem", "Gres", "GresUsed", "Features",
)  # fmt: skip
"""Names of ``sinfo -N -O`` fields (sinfo(1)): one record per node and partition.

Partition is the name of a partition with ``*`` behind it if it is the default one.
"""

LOADS = ("CPUsLoad", "FreeMem")
"""More of them, of which nothing is read unless somebody needs the load of nodes: they change all the time."""

WHY_DOWN = ("NodeList", "Reason", "User", "Timestamp")
"""Fields about nodes that take no jobs, read only while there are some: Slurm's words, who said so, and when."""


def read_nodes(columns: RecordColumns) -> NodeTable:
    """Return a table with one row per node, also for a node in several partitions."""
    names = np.array(columns["NodeList"], dtype=object)
    if not len(names):
        return table_of(NodeTable, 0, {}, {})
    distinct = Labels.of(columns["NodeList"])
    _, first = np.unique(distinct.codes, return_index=True)
    members: list[list[str]] = [[] for _ in distinct.names]
    for code, partition in zip(distinct.codes.tolist(), columns["PartitionName"], strict=True):
        members[code].append(partition)
    read = (*FIELDS, *(name for name in LOADS if name in columns.by_name))
    pick = {name: [columns[name][row] for row in first.tolist()] for name in read}
    return NodeTable(
        name=Labels.of(distinct.names),
        partitions=Labels.of(",".join(names) for names in members),
        usable=np.array([not UNUSABLE_NODE.search(without_power(text)) for text in pick["StateComplete"]], dtype=bool),
        **_columns_of(NodeTable, pick),
    )


def _columns_of(kind: Any, texts: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the columns that *kind* declares of what was read: lists of *texts* by field."""
    return {
        name: one.read(*(texts[field] for field in one.fields))
        for name, one in declared(kind).items()
        if one.read is not None and set(one.fields) <= texts.keys()
    }


def takes_no_jobs(columns: RecordColumns) -> bool:
    """Return True if a node is in a state in which it takes no jobs."""
    return any(UNUSABLE_NODE.search(without_power(text)) for text in set(columns["StateComplete"]))


def with_reasons(nodes: NodeTable, columns: RecordColumns | None) -> NodeTable:
    """Return *nodes* with why, by whom and since when each takes no jobs, by *columns* of ``WHY_DOWN``."""
    if columns is None:
        return nodes
    rows = {name: row for row, name in enumerate(columns["NodeList"])}
    at = [rows.get(name) for name in nodes.name]

    def texts(field: str) -> list[str]:
        return ["" if row is None else or_empty(columns[field][row]) for row in at]

    since = [float(text) if text.isdecimal() else np.nan for text in texts("Timestamp")]
    return nodes.changed(
        down_reason=Labels.of("" if text == "none" else text for text in texts("Reason")),
        down_by=Labels.of("" if text == "Unknown" else text for text in texts("User")),
        down_since_s=np.array(since, dtype=np.float64),
    )


def read_partitions(columns: RecordColumns) -> PartitionTable:
    """Return a table with one row per partition that has nodes."""
    rows: dict[str, int] = {}
    nodes: dict[str, list[str]] = {}
    for row, (name, node) in enumerate(zip(columns["PartitionName"], columns["NodeList"], strict=True)):
        rows.setdefault(name, row)
        nodes.setdefault(name, []).append(node)
    texts = {name: [columns[name][row] for row in rows.values()] for name in FIELDS}
    return PartitionTable(
        name=Labels.of(rows), nodes=Labels.of(fold(nodes[name]) for name in rows), **_columns_of(PartitionTable, texts)
    )
