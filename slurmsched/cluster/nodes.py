"""Nodes, partitions, QOS and limits of accounts as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .columns import (
    BoolArray,
    FloatArray,
    IntArray,
    Labels,
    Rows,
    Table,
    fill_unread,
    from_memory,
    from_slurm,
    table_of,
)
from .sinfo_values import (
    all_types,
    allocated,
    as_it_is,
    decimals,
    first_type,
    gpu_counts,
    gpus_in_use,
    is_default,
    is_up,
    limits_s,
    mib,
    or_none,
    other_gres,
    types_used,
    whole,
)
from .text.gpu_types import several

HIDDEN_NODES = "nodes that Slurm does not show"
"""What an answer leaves out about a job that such nodes may run (``PartitionTable.hidden_nodes``)."""

EVERY = slice(None)
_OF_TYPE = re.compile(r"(?:^|\+)([^=]+)=([0-9]+)(?=\+|$)")


@dataclass(frozen=True, eq=False)
class NodeTable(Table):
    """Nodes with their resources and the part of them in use."""

    name: Labels = from_slurm("NodeList")
    partitions: Labels = from_slurm("PartitionName")  #: comma list of every partition the node is in
    state: Labels = from_slurm("StateComplete", as_it_is)  #: in Slurm's spelling
    #: may take new jobs, also where power saving has switched it off
    usable: BoolArray = from_slurm("StateComplete")
    #: that jobs may have, without the cores that the node keeps for itself (CPUEfctv)
    cpus: IntArray = from_slurm("CPUs", whole)
    cpus_used: IntArray = from_slurm("CPUsState", allocated)
    #: that jobs may have, without what the node keeps for itself (MemSpecLimit)
    memory_mib: FloatArray = from_slurm("Memory", mib)
    memory_used_mib: FloatArray = from_slurm("AllocMem", mib)
    gpus: IntArray = from_slurm("Gres", gpu_counts)
    #: all of them on a node whose GPUs are shared, since no job can have a whole one
    gpus_used: IntArray = from_slurm(("Gres", "GresUsed"), gpus_in_use)
    gpu_type: Labels = from_slurm("Gres", first_type)  #: of a node with several, the first
    features: Labels = from_slurm("Features", or_none)
    #: processes that run or wait for a CPU; NaN where nobody reads it (``power.migrate``)
    cpu_load: FloatArray = from_slurm("CPUsLoad", decimals, given=False, neutral=np.nan, optional=True)
    #: as the node reports it; NaN likewise
    free_memory_mib: FloatArray = from_slurm("FreeMem", decimals, given=False, neutral=np.nan, optional=True)
    #: of a node with several, as a100=2+v100=2; else empty
    gpu_types: Labels = from_slurm("Gres", all_types, given=False)
    #: why it takes no jobs, in an admin's or Slurm's words
    down_reason: Labels = from_slurm("Reason", given=False)
    down_by: Labels = from_slurm("User", given=False)  #: the user who said so
    down_since_s: FloatArray = from_slurm("Timestamp", given=False, neutral=np.nan)  #: when; NaN where unknown
    #: seconds until it has powered up; 0 of one that is up
    ready_s: FloatArray = from_memory(given=False)
    #: of a node with several, those in use, as a100=1+v100=0
    gpu_types_used: Labels = from_slurm(("Gres", "GresUsed"), types_used, given=False)

    #: its generic resources beside GPUs, as bw=10+tape:lto=2; empty for none
    other_gres: Labels = from_slurm("Gres", other_gres, given=False)
    sockets: IntArray = from_slurm(given=False)  #: 0 where not read
    cores: IntArray = from_slurm(given=False)  #: of each socket; likewise
    threads: IntArray = from_slurm(given=False)  #: of each core; likewise
    disk_mib: FloatArray = from_slurm(given=False)  #: for temporary files; not read either where sockets are not

    def __post_init__(self) -> None:
        fill_unread(self)
        super().__post_init__()

    def with_gpus_for(self, partitions: str, gpu_type: str, rows: Rows = EVERY) -> BoolArray:
        """Select usable nodes with GPUs in one of some *partitions*, a comma list; of some types unless that is empty.

        Types are joined as a100+v100. On a cluster without partitions they are all nodes: simulated jobs may come from
        one that had some. With *rows* only these nodes are looked at.
        """
        wanted, bind = set(partitions.split(",")), any(self.partitions.names)
        inside = [not bind or bool(wanted & set(names.split(","))) for names in self.partitions.names]
        found = self.partitions.take(rows).map(inside, np.bool_) & self.usable[rows] & (self.gpus[rows] > 0)
        return found & self.of_types(gpu_type, rows) if gpu_type else found

    def of_types(self, gpu_types: str, rows: Rows = EVERY) -> BoolArray:
        """Select nodes, those of *rows*, with GPUs of one of some types, joined as a100+v100."""
        wanted = set(several(gpu_types))
        found: BoolArray = self.gpu_type.take(rows).map([name in wanted for name in self.gpu_type.names], np.bool_)
        if any(self.gpu_types.names):
            several_types = [bool(wanted & by_type(text).keys()) for text in self.gpu_types.names]
            found |= self.gpu_types.take(rows).map(several_types, np.bool_)
        return found

    def gpus_of(self, gpu_type: str) -> IntArray:
        """Return the GPUs of one type on each node; all of them for no type."""
        if not gpu_type:
            return self.gpus
        of_one = self.gpu_type.map([name == gpu_type for name in self.gpu_type.names], np.bool_)
        mixed = self.gpu_types.map([by_type(text).get(gpu_type, 0) for text in self.gpu_types.names], np.int64)
        return np.asarray(np.where(self.gpu_types.nonempty(), mixed, np.where(of_one, self.gpus, 0)), dtype=np.int64)

    def free_gpus_of(self, gpu_type: str) -> IntArray:
        """Return the GPUs of one type, or all for no type, that are free on each node, whether it takes jobs or not."""
        free = np.maximum(self.gpus - self.gpus_used, 0)
        if not gpu_type:
            return np.asarray(free, dtype=np.int64)
        mixed, known = self.gpu_types.nonempty(), self.gpu_types_used.nonempty()
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

    name: Labels = from_slurm("PartitionName")
    tier: IntArray = from_slurm("PriorityTier", whole)
    up: BoolArray = from_slurm("Available", is_up)
    max_time_s: FloatArray = from_slurm("Time", limits_s)  #: infinite where unlimited
    nodes: Labels = from_slurm("NodeList")  #: host list
    #: takes jobs that name no partition
    default: BoolArray = from_slurm(("Partition", "PartitionName"), is_default, given=False)
    #: limit of jobs that name none; NaN: the longest
    default_time_s: FloatArray = from_slurm("DefaultTime", limits_s, given=False, neutral=np.nan)
    least_nodes: IntArray = from_slurm(given=False)  #: that a job must have
    most_nodes: IntArray = from_slurm(given=False)  #: that a job may have; 0 for any number
    node_cpus: IntArray = from_slurm(given=False)  #: CPUs of a node for all its jobs; 0 for all
    node_memory_mib: FloatArray = from_slurm(given=False)  #: memory of a node for one job; 0 for all
    cpu_memory_mib: FloatArray = from_slurm(given=False)  #: memory for each CPU of a job; 0 for any amount
    qos: Labels = from_slurm(given=False)  #: whose limits all its jobs keep; empty for none
    default_cpu_memory_mib: FloatArray = from_slurm(given=False)  #: of jobs that name no memory; 0: none
    default_node_memory_mib: FloatArray = from_slurm(given=False)  #: likewise
    default_gpu_memory_mib: FloatArray = from_slurm(given=False)  #: likewise, of jobs with GPUs
    default_gpu_cpus: IntArray = from_slurm(given=False)  #: CPUs that come with a GPU; 0: none
    #: nodes that it has and Slurm does not show, a host list: of a cloud, while they are switched off (22.05)
    unshown: Labels = from_slurm(given=False)
    job_factor: IntArray = from_slurm(given=False, neutral=1)  #: PriorityJobFactor, a part of the priority of its jobs
    whole_nodes: BoolArray = from_slurm(given=False)  #: gives each job whole nodes (OverSubscribe=EXCLUSIVE)

    def __post_init__(self) -> None:
        fill_unread(self)
        super().__post_init__()

    @property
    def hidden_nodes(self) -> dict[str, str]:
        """The nodes that partitions have and Slurm does not show, a host list by the name of each that has any."""
        return {name: text for name, text in zip(self.name, self.unshown, strict=True) if text}

    def highest_tiers(self, partition: Labels) -> IntArray:
        """Return the highest tier among the partitions in each row of *partition* (slurm.conf(5)); 1 if unknown."""
        tier = dict(zip(self.name, self.tier.tolist(), strict=True))
        return partition.map(
            [max(tier.get(name, 1) for name in names.split(",")) for names in partition.names], np.int64
        )


@dataclass(frozen=True, eq=False)
class QosTable(Table):
    """Qualities of service with their priority; empty without accounting."""

    name: Labels = from_slurm()
    priority: IntArray = from_slurm()


@dataclass(frozen=True, eq=False)
class AccountTable(Table):
    """Accounts with a limit on their GPUs at once (GrpTRES); empty where Slurm itself enforces it."""

    name: Labels = from_slurm()
    gpus: IntArray = from_slurm()


NO_ACCOUNTS = table_of(AccountTable, 0, {}, {})
