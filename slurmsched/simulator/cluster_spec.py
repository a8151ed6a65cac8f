"""A fleet: the nodes, partitions and QOS that a simulation runs on, in the columns of a real cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..cluster.columns import FloatArray, Labels, table_of
from ..cluster.nodes import NodeTable, PartitionTable, QosTable
from ..cluster.records.node_loans import SetNodes
from ..cluster.text.hostlist import expand

PLENTY = 1_000_000  #: CPUs of a node of which only its GPUs are known


@dataclass(frozen=True)
class Failures:
    """How often nodes fail and how long they are away: both exponential, by a seed."""

    mtbf_s: float  #: mean time of one node from a repair to its next failure
    repair_s: float  #: mean time until it is back
    seed: int = 0


@dataclass(frozen=True)
class Sharing:
    """Which jobs may run two on the same GPUs: ``speeds[i, j]`` is that of *names[i]* beside *names[j]*, 1 alone."""

    names: tuple[str, ...]  #: of what jobs compute, or of jobs in a trace that does not say; others share with nobody
    speeds: FloatArray  #: 0 where the pair was not measured: it never shares
    least: float = 0.85  #: what both must keep, for a policy that knows all speeds


@dataclass(frozen=True)
class Mode:
    """How a policy packs from a moment on (Lucid section 3.3, dynamic strategy)."""

    from_s: float
    least: float  #: of what the slower of two is believed to keep; above 1 for no sharing
    first: bool = True
    coming: float = 0.0  #: jobs that are soon to wait too, where pairs are weighed


@dataclass(frozen=True)
class PackingSetup:
    """What a policy that packs knows and does (Lucid section 3.3), where it does not know all speeds."""

    believed: FloatArray  #: [names, names] what the first keeps beside the second, as far as it knows; 0 for never
    profiled_s: FloatArray  #: for each job of the workload: how long it runs before it is known; 0 from its submission
    least: float  #: of what the slower of two is believed to keep, to pack
    first: bool = True  #: join a running job while GPUs are free too, as Algorithm 2 does; else only when none are
    told_s: FloatArray | None = None  #: forecast runtimes; with them pairs are weighed against the wait that they save
    modes: tuple[Mode, ...] = ()  #: by time, the first from -inf on; in place of *least* and *first*
    uneven: bool = False  #: a job may also join on some of the GPUs of one that has more; it holds up all of that one


@dataclass(frozen=True)
class ClusterSpec:
    """What there is to run on; nobody uses any of it yet."""

    nodes: NodeTable
    partitions: PartitionTable
    qos: QosTable
    account_gpus: Mapping[str, int] = field(default_factory=dict)  #: most GPUs an account may have at once (GrpTRES)
    speeds: tuple[float, ...] = (1.0,)  #: of a sensitive job on 0, 1, ... nodes more than it needs; the last for more
    failures: Failures | None = None
    sharing: Sharing | None = None

    @classmethod
    def of(cls, count: int, gpus: int) -> ClusterSpec:
        """*count* equal nodes of *gpus* GPUs, open to every job: one pool."""
        return cls(
            nodes_of(count, gpus),
            table_of(PartitionTable, 0, {}, {}),
            table_of(QosTable, 0, {}, {}),
        )

    @property
    def total(self) -> int:
        """All GPUs."""
        return int(self.nodes.gpus.sum())

    @property
    def size(self) -> int:
        """GPUs of the largest node."""
        return int(self.nodes.gpus.max(initial=0))

    @property
    def equal(self) -> bool:
        """Whether it is one pool of equal nodes of which only GPUs count, and nothing ever goes wrong."""
        nodes = self.nodes
        bounded = bool(len(self.partitions) or self.account_gpus or (nodes.cpus < PLENTY).any())
        bounded = bounded or bool(np.isfinite(nodes.memory_mib).any()) or any(nodes.gpu_type) or any(nodes.features)
        constant = all(speed == 1 for speed in self.speeds) and self.failures is None and self.sharing is None
        constant = constant and bool(nodes.usable.all())
        return constant and not bounded and bool((nodes.gpus == self.size).all())


def nodes_of(count: int, gpus: int, **columns: object) -> NodeTable:
    """Equal nodes n1..n*count*, idle; *columns* of NodeTable say more about them."""
    given_columns: dict[str, object] = {
        "name": Labels.of(f"n{number}" for number in range(1, count + 1)),
        "state": Labels.of(["idle"] * count),
        "gpus": np.full(count, gpus),
    }
    return table_of(
        NodeTable, count, {"usable": True, "cpus": PLENTY, "memory_mib": float("inf")}, given_columns | columns
    )


def partition_of(name: str, nodes: str, **columns: object) -> PartitionTable:
    """One partition over a host list of nodes; *columns* of PartitionTable say more about it."""
    given_columns: dict[str, object] = {"name": Labels.of([name]), "nodes": Labels.of([nodes])}
    return table_of(PartitionTable, 1, {"tier": 1, "up": True, "max_time_s": float("inf")}, given_columns | columns)


def with_nodes(fleet: ClusterSpec, change: SetNodes) -> ClusterSpec:
    """*fleet* with the nodes of one partition changed."""
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
