"""The cluster of a simulation: nodes, partitions and QOS in the columns of a real cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from ..cluster.actions import Share, StartShared, Unmark, Unshare
from ..cluster.columns import FloatArray, IntArray, Labels, table_of
from ..cluster.nodes import NodeTable, PartitionTable, QosTable
from ..cluster.records.node_loans import SetNodes
from ..cluster.reservations import NO_RESERVATIONS, PartUse, ReservationTable
from ..cluster.reserved_parts import ReservedParts
from ..cluster.state import ClusterState
from ..cluster.text.hostlist import expand
from ..cluster.topology import FLAT, Topology
from ..policies.links import GpuLinks

MOST_SHARED = 62  #: GPUs of a node with slots: numbers of bits
PLENTY = 1_000_000  #: CPUs of a node for which only the GPUs are given


@dataclass(frozen=True)
class Failures:
    """The rate of node failures and the mean repair time, both exponentially distributed with a seed."""

    mtbf_s: float  #: mean time of one node from a repair to its next failure
    repair_s: float  #: mean time until it is back
    seed: int = 0


@dataclass(frozen=True)
class Sharing:
    """The jobs that may share GPUs in pairs: ``speeds[i, j]`` is that of *names[i]* beside *names[j]*, 1 alone."""

    names: tuple[str, ...]  #: of programs, or of jobs in a trace without these
    speeds: FloatArray  #: 0 where the pair was not measured


@dataclass(frozen=True)
class ClusterSpec:
    """The resources of a simulation at its start, all idle."""

    nodes: NodeTable
    partitions: PartitionTable
    qos: QosTable
    account_gpus: Mapping[str, int] = field(default_factory=dict)  #: most GPUs an account may have at once (GrpTRES)
    speeds: tuple[float, ...] = (1.0,)  #: of a sensitive job on 0, 1, ... nodes more than it needs; the last for more
    program_speeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  #: of programs, whatever is declared
    failures: Failures | None = None
    sharing: Sharing | None = None
    links: tuple[GpuLinks | None, ...] = ()  #: of each node; empty where none are known
    topology: Topology = FLAT  #: the blocks or switches of the nodes
    binds: bool = False  #: all jobs on several nodes keep to the blocks; else those that are said to
    shared: str = ""  #: the partition whose nodes have two slots of each GPU; none of them is handed out whole
    reservations: ReservationTable = NO_RESERVATIONS
    part_use: PartUse = field(default_factory=dict)  #: what jobs use of those of parts of nodes at the start
    parts: ReservedParts | None = None  #: of nodes, where jobs in a reservation have no more; behind the other nodes
    planned: ReservationTable = NO_RESERVATIONS  #: more of them, with times in seconds after the first submission

    @property
    def units(self) -> IntArray:
        """The blocks or switches of each node, [level, node]."""
        return self.topology.numbers(self.nodes.name)

    @property
    def slots(self) -> IntArray:
        """The GPUs with slots per node, one bit for each number."""
        here = [self.shared in names.split(",") for names in self.nodes.partitions.names]
        shared = self.nodes.partitions.map(here if self.shared else [False] * len(here), np.bool_)
        return np.where(shared, (1 << np.minimum(self.nodes.gpus, MOST_SHARED)) - 1, 0)

    @classmethod
    def of(cls, count: int, gpus: int) -> ClusterSpec:
        """Return one pool of *count* equal nodes of *gpus* GPUs, open to every job."""
        return cls(
            nodes_of(count, gpus),
            table_of(PartitionTable, 0, {}, {}),
            table_of(QosTable, 0, {}, {}),
        )

    @classmethod
    def all_up(cls, state: ClusterState) -> ClusterSpec:
        """Return the cluster of *state*, with all of its nodes up and idle."""
        nodes, none = state.nodes, np.zeros(len(state.nodes), dtype=np.int64)
        up = replace(
            nodes,
            state=Labels.of(["idle"] * len(nodes)),
            usable=np.ones(len(nodes), dtype=np.bool_),
            cpus_used=none,
            gpus_used=none,
            memory_used_mib=np.zeros(len(nodes)),
            cpu_load=np.full(len(nodes), np.nan),
        )
        return cls(up, state.partitions, state.qos)

    @classmethod
    def of_types(cls, gpus: Mapping[str, int], size: int | None = None) -> ClusterSpec:
        """Return GPUs of each type on nodes of *size* GPUs; on one node of the type's name if that is None."""
        types = [name for name, count in gpus.items() for _ in range(count // size if size else 1)]
        fleet = cls.of(len(types), size or 1)
        nodes = replace(fleet.nodes, gpu_type=Labels.of(types))
        if not size:
            nodes = replace(nodes, name=Labels.of(gpus), gpus=np.array(list(gpus.values())))
        return replace(fleet, nodes=nodes)

    def has_partitions(self, names: str) -> bool:
        """Return True if there are all partitions of *names*, with commas between them."""
        return all(name in self.partitions.name.names for name in names.split(","))

    def lacks(self, action: Share | StartShared | Unmark | Unshare) -> str | None:
        """Return Slurm's complaint about a partition, a node or slots that do not exist."""
        if isinstance(action, Share | Unshare):
            partitions = action.partition if isinstance(action, Share) else action.home
            if not self.has_partitions(partitions):
                return "Invalid partition name specified"
        if not isinstance(action, Share):
            return None
        names = list(self.nodes.name)
        if action.node not in names:
            return "Invalid node name specified"
        wanted = sum(1 << int(gpu) for gpu in action.token.partition(":")[0].split("+"))
        has = int(self.slots[names.index(action.node)])
        return "Requested node configuration is not available" if wanted & ~has else None

    def dated(self, first_s: float) -> ClusterSpec:
        """Return the cluster with the times of all reservations, where the first job is submitted at *first_s*."""
        if not len(self.planned):
            return self
        dated = replace(self.planned, start_s=self.planned.start_s + first_s, end_s=self.planned.end_s + first_s)
        return replace(self, reservations=self.reservations.joined(dated), planned=NO_RESERVATIONS)

    @property
    def total(self) -> int:
        """The number of GPUs of all nodes."""
        return int(self.nodes.gpus.sum())

    @property
    def size(self) -> int:
        """The GPUs of the largest node."""
        return int(self.nodes.gpus.max(initial=0))

    @property
    def loaded(self) -> bool:
        """True if other processes than jobs load nodes."""
        return bool((self.nodes.cpu_load > 0).any())

    @property
    def equal(self) -> bool:
        """True if it is one pool of equal nodes whose only limit is GPUs, at constant speed, without
        failures and reservations."""
        nodes = self.nodes
        bounded = bool(len(self.partitions) or self.account_gpus or (nodes.cpus < PLENTY).any())
        bounded = bounded or bool(np.isfinite(nodes.memory_mib).any()) or any(nodes.gpu_type) or any(nodes.features)
        speeds = (*self.speeds, *chain.from_iterable(self.program_speeds.values()))
        constant = all(speed == 1 for speed in speeds) and self.failures is None and self.sharing is None
        constant = constant and bool(nodes.usable.all()) and not self.topology.levels
        constant = constant and not (len(self.reservations) or len(self.planned))
        return constant and not bounded and bool((nodes.gpus == self.size).all())


def nodes_of(count: int, gpus: int, **columns: object) -> NodeTable:
    """Return *count* equal, idle nodes n1, n2, ...; *columns* of NodeTable override the defaults."""
    given_columns: dict[str, object] = {
        "name": Labels.of(f"n{number}" for number in range(1, count + 1)),
        "state": Labels.of(["idle"] * count),
        "gpus": np.full(count, gpus),
    }
    unread = dict.fromkeys(("cpu_load", "free_memory_mib"), float("nan"))
    neutral = {"usable": True, "cpus": PLENTY, "memory_mib": float("inf")} | unread
    return table_of(NodeTable, count, neutral, given_columns | columns)


def partition_of(name: str, nodes: str, **columns: object) -> PartitionTable:
    """Return one partition over a host list of nodes; *columns* of PartitionTable override the defaults."""
    given_columns: dict[str, object] = {"name": Labels.of([name]), "nodes": Labels.of([nodes])}
    neutral = {"tier": 1, "up": True, "max_time_s": float("inf"), "default_time_s": float("nan")}
    return table_of(PartitionTable, 1, neutral, given_columns | columns)


def with_nodes(fleet: ClusterSpec, change: SetNodes) -> ClusterSpec:
    """Return *fleet* with the nodes of one partition changed."""
    parts, members = fleet.partitions, set(expand(change.nodes))
    lists = [
        change.nodes if name == change.partition else nodes for name, nodes in zip(parts.name, parts.nodes, strict=True)
    ]
    inside = [
        ",".join([*_others(names, change.partition), *([change.partition] if node in members else [])])
        for node, names in zip(fleet.nodes.name, fleet.nodes.partitions, strict=True)
    ]
    return replace(
        fleet,
        nodes=replace(fleet.nodes, partitions=Labels.of(inside)),
        partitions=replace(parts, nodes=Labels.of(lists)),
    )


def _others(names: str, partition: str) -> list[str]:
    return [name for name in names.split(",") if name and name != partition]
