"""The limits of partitions that sinfo does not show, and partitions without nodes, from ``scontrol show partition``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import Labels, table_of
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.sbatch_defaults import JobDefaults
from ...cluster.text.hostlist import expanded, fold
from ...cluster.text.tres import NOTHING, seconds
from .job_defaults import read_defaults

_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_DIGITS = re.compile(r"[0-9]{1,12}")

_WHOLE = (("OverSubscribe", "EXCLUSIVE"), ("ExclusiveTopo", "YES"), ("Exclusive", "NODE"), ("Exclusive", "TOPO"))
"""How the releases write that a partition gives whole nodes."""

NO_CONFIG: Mapping[str, str] = {}
"""The cluster's own limits where they were not read."""


@dataclass(frozen=True)
class PartitionLimits:
    """What a partition allows a job, and what there is to know of one without nodes; 0 stands for no limit."""

    least_nodes: int = 0
    most_nodes: int = 0
    node_cpus: int = 0
    node_memory_mib: float = 0.0
    cpu_memory_mib: float = 0.0
    tier: int = 1
    up: bool = True
    max_time_s: float = np.inf
    qos: str = ""
    job_factor: int = 1
    whole_nodes: bool = False
    defaults: JobDefaults = field(default_factory=JobDefaults)
    nodes: str = ""  #: by the configuration, a host list
    how_many: int = 0  #: of these
    future: frozenset[str] = frozenset()  #: those that jobs do not get before an admin defines them


def read_limits(
    text: str, config: Mapping[str, str] = NO_CONFIG, future: frozenset[str] = frozenset()
) -> dict[str, PartitionLimits]:
    """Return the limits of each partition in the output of ``scontrol --oneliner show partition``.

    Those of memory, and the defaults of jobs, are the cluster's, by its *config*, where a partition has none. No job
    gets nodes of the *future*.
    """
    return {name: _limits(fields, config, future) for name, fields in partition_records(text).items()}


def partition_records(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each partition in the output of ``scontrol --oneliner show partition``."""
    records = (dict(_FIELD.findall(line)) for line in text.splitlines())
    return {fields["PartitionName"]: fields for fields in records if "PartitionName" in fields}


def _limits(fields: Mapping[str, str], config: Mapping[str, str], future: frozenset[str]) -> PartitionLimits:
    memory = fields if "MaxMemPerCPU" in fields or _number(fields, "MaxMemPerNode") else config
    return PartitionLimits(
        least_nodes=_number(fields, "MinNodes"),
        most_nodes=_number(fields, "MaxNodes"),
        node_cpus=_number(fields, "MaxCPUsPerNode"),
        node_memory_mib=float(_number(memory, "MaxMemPerNode")),
        cpu_memory_mib=float(_number(memory, "MaxMemPerCPU")),
        tier=_number(fields, "PriorityTier"),
        up=fields.get("State", "UP") == "UP",
        max_time_s=_seconds(fields.get("MaxTime", "")),
        qos="" if fields.get("QoS", "") in NOTHING else fields["QoS"],
        job_factor=_number(fields, "PriorityJobFactor", otherwise=1),
        whole_nodes=any(fields.get(name) == value for name, value in _WHOLE),
        defaults=read_defaults(fields, config),
        nodes="" if fields.get("Nodes", "") in NOTHING else fields["Nodes"],
        how_many=_number(fields, "TotalNodes"),
        future=future,
    )


def _number(fields: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    """Return a limit; *otherwise* for UNLIMITED, also as a number of 19 digits, and for a form of a newer release."""
    text = fields.get(name, "")
    return int(text) if _DIGITS.fullmatch(text) else otherwise


def _seconds(text: str) -> float:
    try:
        limit_s = seconds(text)
    except ValueError:
        return np.inf
    return np.inf if np.isnan(limit_s) else limit_s


def with_limits(
    partitions: PartitionTable, limits: Mapping[str, PartitionLimits], nodes: NodeTable | None = None
) -> PartitionTable:
    """Return *partitions* with their *limits*, and with those that have no nodes, which sinfo does not list by node.

    Their nodes beside *nodes*, those that sinfo shows, are named.
    """
    empty = [name for name in limits if name not in set(partitions.name)]
    table = partitions.joined(_without_nodes({name: limits[name] for name in empty}))
    own = [limits.get(name, PartitionLimits()) for name in table.name]
    return table.changed(
        least_nodes=np.array([one.least_nodes for one in own], dtype=np.int64),
        most_nodes=np.array([one.most_nodes for one in own], dtype=np.int64),
        node_cpus=np.array([one.node_cpus for one in own], dtype=np.int64),
        node_memory_mib=np.array([one.node_memory_mib for one in own], dtype=np.float64),
        cpu_memory_mib=np.array([one.cpu_memory_mib for one in own], dtype=np.float64),
        qos=Labels.of(one.qos for one in own),
        unshown=Labels.of(_unshown(table.name, own, nodes)),
        job_factor=np.array([one.job_factor for one in own], dtype=np.int64),
        whole_nodes=np.array([one.whole_nodes for one in own], dtype=np.bool_),
        default_cpu_memory_mib=np.array([one.defaults.cpu_memory_mib for one in own], dtype=np.float64),
        default_node_memory_mib=np.array([one.defaults.node_memory_mib for one in own], dtype=np.float64),
        default_gpu_memory_mib=np.array([one.defaults.gpu_memory_mib for one in own], dtype=np.float64),
        default_gpu_cpus=np.array([one.defaults.gpu_cpus for one in own], dtype=np.int64),
    )


def _unshown(names: Iterable[str], limits: Iterable[PartitionLimits], nodes: NodeTable | None) -> Iterator[str]:
    """Yield, by partition, the nodes that it has and sinfo does not show."""
    if nodes is None:
        yield from ("" for _ in names)
        return
    many: Counter[str] = Counter()
    for text, shown in zip(nodes.partitions.names, np.bincount(nodes.partitions.codes).tolist(), strict=False):
        many.update(dict.fromkeys(text.split(","), shown))
    for name, one in zip(names, limits, strict=True):
        missing = one.how_many > many[name]
        there = set(nodes.name) | one.future if missing else set()
        yield fold(node for node in expanded(one.nodes) if node not in there) if missing else ""


def _without_nodes(limits: Mapping[str, PartitionLimits]) -> PartitionTable:
    return table_of(
        PartitionTable,
        len(limits),
        {"default_time_s": np.nan},
        {
            "name": Labels.of(limits),
            "tier": np.array([one.tier for one in limits.values()], dtype=np.int64),
            "up": np.array([one.up for one in limits.values()], dtype=np.bool_),
            "max_time_s": np.array([one.max_time_s for one in limits.values()], dtype=np.float64),
        },
    )
