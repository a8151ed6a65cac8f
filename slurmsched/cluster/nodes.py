"""Nodes, partitions, QOS and limits of accounts as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of

_UNREAD: Any = np.zeros(0)


def _unread() -> Any:
    """Return a column of a source that does not read it; the table fills in its neutral value for each row."""
    return _UNREAD


def _fill(table: Table, **neutral: float | bool) -> None:
    """Give the columns of *table* that were not read their *neutral* values."""
    for name, value in neutral.items():
        if getattr(table, name) is _UNREAD:
            object.__setattr__(table, name, np.full(len(table), value))


@dataclass(frozen=True, eq=False)
class NodeTable(Table):
    """Nodes with their resources and the part of them in use."""

    name: Labels
    partitions: Labels  #: comma list of every partition the node is in
    state: Labels  #: in Slurm's spelling
    usable: BoolArray  #: may take new jobs
    cpus: IntArray
    cpus_used: IntArray
    memory_mib: FloatArray
    memory_used_mib: FloatArray
    gpus: IntArray
    gpus_used: IntArray  #: all of them on a node whose GPUs are shared, since no job can have a whole one
    gpu_type: Labels
    features: Labels
    cpu_load: FloatArray = field(
        default_factory=_unread
    )  #: processes that run or wait for a CPU; NaN where nobody reads it (``power.migrate``)
    free_memory_mib: FloatArray = field(default_factory=_unread)  #: as the node reports it; NaN likewise

    def __post_init__(self) -> None:
        _fill(self, cpu_load=np.nan, free_memory_mib=np.nan)
        super().__post_init__()

    def with_gpus_for(self, partitions: str, gpu_type: str) -> BoolArray:
        """Select usable nodes with GPUs in one of some *partitions*, a comma list; of some types unless that is empty.

        Types are joined as a100+v100. On a cluster without partitions they are all nodes: simulated jobs may come from
        one that had some.
        """
        wanted, bind = set(partitions.split(",")), any(self.partitions.names)
        inside = [not bind or bool(wanted & set(names.split(","))) for names in self.partitions.names]
        found = self.partitions.map(inside, np.bool_) & self.usable & (self.gpus > 0)
        if gpu_type:
            found &= self.gpu_type.map([name in gpu_type.split("+") for name in self.gpu_type.names], np.bool_)
        return found


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

    def __post_init__(self) -> None:
        _fill(self, default=False, default_time_s=np.nan)
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
