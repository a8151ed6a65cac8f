"""Nodes and partitions from sinfo."""

from __future__ import annotations

import re

import numpy as np

from ...cluster.columns import FloatArray, Labels, table_of
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.power_saving import without_power
from ...cluster.text.hostlist import fold
from ...cluster.text.tres import gpus_by_type, gpus_in, seconds, slots_on
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

_WHOLE = re.compile(r"([0-9]{1,15})(K?)")
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


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
    has = [gpus_in(_or_empty(text)) for text in pick["Gres"]]
    return NodeTable(
        name=Labels.of(distinct.names),
        partitions=Labels.of(",".join(names) for names in members),
        state=Labels.of(pick["StateComplete"]),
        usable=np.array([not UNUSABLE_NODE.search(without_power(text)) for text in pick["StateComplete"]], dtype=bool),
        cpus=_whole(pick["CPUs"]),
        cpus_used=_whole([text.partition("/")[0] for text in pick["CPUsState"]]),
        memory_mib=_whole(pick["Memory"]).astype(np.float64),
        memory_used_mib=_whole(pick["AllocMem"]).astype(np.float64),
        gpus=np.array([gpus for gpus, _ in has], dtype=np.int64),
        gpus_used=np.array(
            [
                gpus if _shares(text) else gpus_in(_or_empty(used))[0]
                for (gpus, _), text, used in zip(has, pick["Gres"], pick["GresUsed"], strict=True)
            ],
            dtype=np.int64,
        ),
        gpu_type=Labels.of(kind for _, kind in has),
        features=Labels.of(_or_empty(text) for text in pick["Features"]),
        gpu_types=Labels.of(several_types(_or_empty(text)) for text in pick["Gres"]),
        gpu_types_used=Labels.of(map(_types_used, pick["Gres"], pick["GresUsed"])),
        cpu_load=_decimal(pick.get("CPUsLoad", [""] * len(has))),
        free_memory_mib=_decimal(pick.get("FreeMem", [""] * len(has))),
    )


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
        return ["" if row is None else _or_empty(columns[field][row]) for row in at]

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
    return PartitionTable(
        name=Labels.of(rows),
        tier=_whole([columns["PriorityTier"][row] for row in rows.values()]),
        up=np.array([columns["Available"][row] == "up" for row in rows.values()], dtype=bool),
        max_time_s=np.array([seconds(columns["Time"][row]) for row in rows.values()], dtype=np.float64),
        nodes=Labels.of(fold(nodes[name]) for name in rows),
        default=np.array([columns["Partition"][row] == f"{name}*" for name, row in rows.items()], dtype=bool),
        default_time_s=np.array([seconds(columns["DefaultTime"][row]) for row in rows.values()], dtype=np.float64),
    )


def several_types(gres: str) -> str:
    """Return the GPUs of a node with several types as a100=2+v100=2; empty of any other node."""
    counts = gpus_by_type(gres)
    return "+".join(f"{name}={many}" for name, many in counts.items()) if len(counts) > 1 else ""


def _types_used(gres: str, used: str) -> str:
    """Return the GPUs in use by type of a node with several types, as a100=1+v100=0; empty of any other node."""
    return several_types(_or_empty(used)) if several_types(_or_empty(gres)) else ""


def _shares(gres: str) -> bool:
    return any(count > 1 for count in slots_on(gres).values())


def _or_empty(text: str) -> str:
    return "" if text in {"(null)", "N/A"} else text


def _decimal(texts: list[str]) -> FloatArray:
    """Read numbers such as 3.25; NaN for anything else, such as N/A of a node that never answered."""
    return np.array([float(text) if _DECIMAL.fullmatch(text) else np.nan for text in texts], dtype=np.float64)


def _whole(texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Read whole numbers; sinfo writes the CPUs of a node with 2,048 as 2K. 0 for anything else."""
    found = [_WHOLE.fullmatch(text) for text in texts]
    return np.array([int(one[1]) * (1024 if one[2] else 1) if one else 0 for one in found], dtype=np.int64)
