"""Nodes, partitions, QOS and limits of accounts as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from .text.gpu_types import several

_UNREAD: Any = np.zeros(0)
_OF_TYPE = re.compile(r"(?:^|\+)([^=]+)=([0-9]+)(?=\+|$)")


def _unread() -> Any:
    """Return a column of a source that does not read it; the table fills in its neutral value for each row."""
    return _UNREAD


def _fill(table: Table, **neutral: float | bool | str) -> None:
    """Give the columns of *table* that were not read their *neutral* values."""
    for name, value in neutral.items():
        if getattr(table, name) is _UNREAD:
            many = len(table)
            texts = isinstance(value, str)
            column = Labels(np.zeros(many, dtype=np.int64), (str(value),)) if texts else np.full(many, value)
            object.__setattr__(table, name, column)


@dataclass(frozen=True, eq=False)
class NodeTable(Table):
    """Nodes with their resources and the part of them in use."""

    name: Labels
    partitions: Labels  #: comma list of every partition the node is in
    state: Labels  #: in Slurm's spelling
    usable: BoolArray  #: may take new jobs, also where power saving has switched it off
    cpus: IntArray  #: that jobs may have, without the cores that the node keeps for itself (CPUEfctv)
    cpus_used: IntArray
    memory_mib: FloatArray  #: that jobs may have, without what the node keeps for itself (MemSpecLimit)
    memory_used_mib: FloatArray
    gpus: IntArray
    gpus_used: IntArray  #: all of them on a node whose GPUs are shared, since no job can have a whole one
    gpu_type: Labels  #: of a node with several, the first
    features: Labels
    cpu_load: FloatArray = field(
        default_factory=_unread
    )  #: processes that run or wait for a CPU; NaN where nobody reads it (``power.migrate``)
    free_memory_mib: FloatArray = field(default_factory=_unread)  #: as the node reports it; NaN likewise
    gpu_types: Labels = field(default_factory=_unread)  #: of a node with several, as a100=2+v100=2; else empty
    down_reason: Labels = field(default_factory=_unread)  #: why it takes no jobs, in an admin's or Slurm's words
    down_by: Labels = field(default_factory=_unread)  #: the user who said so
    down_since_s: FloatArray = field(default_factory=_unread)  #: when; NaN where unknown
    ready_s: FloatArray = field(default_factory=_unread)  #: seconds until it has powered up; 0 of one that is up
    gpu_types_used: Labels = field(default_factory=_unread)  #: of a node with several, those in use, as a100=1+v100=0

    def __post_init__(self) -> None:
        _fill(self, cpu_load=np.nan, free_memory_mib=np.nan, down_since_s=np.nan, ready_s=0.0)
        _fill(self, gpu_types="", gpu_types_used="", down_reason="", down_by="")
        super().__post_init__()

    def with_gpus_for(self, partitions: str, gpu_type: str) -> BoolArray:
        """Select usable nodes with GPUs in one of some *partitions*, a comma list; of some types unless that is empty.

        Types are joined as a100+v100. On a cluster without partitions they are all nodes: simulated jobs may come from
        one that had some.
        """
        wanted, bind = set(partitions.split(",")), any(self.partitions.names)
        inside = [not bind or bool(wanted & set(names.split(","))) for names in self.partitions.names]
        found = self.partitions.map(inside, np.bool_) & self.usable & (self.gpus > 0)
        return found & self.of_types(gpu_type) if gpu_type else found

    def of_types(self, gpu_types: str) -> BoolArray:
        """Select nodes with GPUs of one of some types, joined as a100+v100."""
        wanted = set(several(gpu_types))
        found: BoolArray = self.gpu_type.map([name in wanted for name in self.gpu_type.names], np.bool_)
        if any(self.gpu_types.names):
            found |= self.gpu_types.map(
                [bool(wanted & by_type(text).keys()) for text in self.gpu_types.names], np.bool_
            )
        return found

    def gpus_of(self, gpu_type: str) -> IntArray:
        """Return the GPUs of one type on each node; all of them for no type."""
        if not gpu_type:
            return self.gpus
        of_one = self.gpu_type.map([name == gpu_type for name in self.gpu_type.names], np.bool_)
        mixed = self.gpu_types.map([by_type(text).get(gpu_type, 0) for text in self.gpu_types.names], np.int64)
        return np.asarray(np.where(self.gpu_types.said(), mixed, np.where(of_one, self.gpus, 0)), dtype=np.int64)

    def free_gpus_of(self, gpu_type: str) -> IntArray:
        """Return the GPUs of one type, or all for no type, that are free on each node, whether it takes jobs or not."""
        free = np.maximum(self.gpus - self.gpus_used, 0)
        if not gpu_type:
            return np.asarray(free, dtype=np.int64)
        mixed, known = self.gpu_types.said(), self.gpu_types_used.said()
        there = self.gpus_of(gpu_type)
        if not mixed.any():
            return np.asarray(np.where(there > 0, free, 0), dtype=np.int64)
        used = self.gpu_types_used.map([by_type(text).get(gpu_type, 0) for text in self.gpu_types_used.names], np.int64)
        of_mixed = np.where(known, np.maximum(there - used, 0), np.minimum(there, free))
        return np.asarray(np.where(mixed, of_mixed, np.where(there > 0, free, 0)), dtype=np.int64)


def by_type(text: str) -> dict[str, int]:
    """Return the GPUs by type in a text such as a100=2+v100=2."""
    return {name: int(many) for name, many in _OF_TYPE.findall(text)}


@dataclass(frozen=True, eq=False)
class PartitionTable(Table):
    """Partitions; Slurm serves a higher tier first, whatever the priorities."""

    name: Labels
    tier: IntArray
    up: BoolArray
    max_time_s: FloatArray  #: infinite where unlimited
    nodes: Labels  #: host list
    default: BoolArray = field(default_factory=_unread)  #: takes jobs that name no partition
    default_time_s: FloatArray = field(default_factory=_unread)  #: limit of jobs that name none; NaN: the longest
    least_nodes: IntArray = field(default_factory=_unread)  #: that a job must have
    most_nodes: IntArray = field(default_factory=_unread)  #: that a job may have; 0 for any number
    node_cpus: IntArray = field(default_factory=_unread)  #: CPUs of a node for all its jobs; 0 for all
    node_memory_mib: FloatArray = field(default_factory=_unread)  #: memory of a node for one job; 0 for all
    cpu_memory_mib: FloatArray = field(default_factory=_unread)  #: memory for each CPU of a job; 0 for any amount
    qos: Labels = field(default_factory=_unread)  #: whose limits all its jobs keep; empty for none
    default_cpu_memory_mib: FloatArray = field(default_factory=_unread)  #: of jobs that name no memory; 0: none
    default_node_memory_mib: FloatArray = field(default_factory=_unread)  #: likewise
    default_gpu_memory_mib: FloatArray = field(default_factory=_unread)  #: likewise, of jobs with GPUs
    default_gpu_cpus: IntArray = field(default_factory=_unread)  #: CPUs that come with a GPU; 0: none
    job_factor: IntArray = field(default_factory=_unread)  #: PriorityJobFactor, a part of the priority of its jobs

    def __post_init__(self) -> None:
        _fill(self, default=False, default_time_s=np.nan)
        _fill(self, least_nodes=0, most_nodes=0, node_cpus=0, node_memory_mib=0.0, cpu_memory_mib=0.0, qos="")
        _fill(self, default_cpu_memory_mib=0.0, default_node_memory_mib=0.0)
        _fill(self, default_gpu_memory_mib=0.0, default_gpu_cpus=0, job_factor=1)
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class QosTable(Table):
    """Qualities of service with their priority; empty without accounting."""

    name: Labels
    priority: IntArray


@dataclass(frozen=True, eq=False)
class AccountTable(Table):
    """Accounts with a limit on their GPUs at once (GrpTRES); empty where Slurm itself enforces it."""

    name: Labels
    gpus: IntArray


NO_ACCOUNTS = table_of(AccountTable, 0, {}, {})
