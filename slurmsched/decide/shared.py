"""The nodes on which GPUs are shared, and which of their GPUs are taken how often. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.comment import read
from ..cluster.hostlist import expand
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..cluster.tres import slots_in
from ..policies.slots import Token

SLOTS = 2  #: of each GPU


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The usable nodes of the sharing partition, in the order of their names; changes while jobs are placed."""

    names: tuple[str, ...]
    partitions: tuple[frozenset[str], ...]
    gpu_types: tuple[str, ...]
    cpus_left: IntArray
    memory_left_mib: FloatArray
    taken: tuple[list[int], ...]  #: slots in use or on their way, by the number of the GPU
    free: IntArray  #: GPUs that nobody has

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def at(self) -> dict[str, int]:
        """The place of each node by its name."""
        return {name: place for place, name in enumerate(self.names)}

    def rooms(self, jobs: JobTable, row: int) -> BoolArray:
        """The nodes on which CPUs and memory are left for a job of *jobs*."""
        fits: BoolArray = (jobs.cpus[row] <= self.cpus_left) & (_memory_mib(jobs, row) <= self.memory_left_mib)
        return fits

    def take(self, place: int, jobs: JobTable, row: int, gpus: Sequence[int], *, runs: bool = False) -> None:
        """Count a job of *jobs* on these GPUs; Slurm has counted the CPUs of one that *runs*."""
        taken = self.taken[place]
        for gpu in gpus:
            if gpu < len(taken):
                taken[gpu] += 1
        self.free[place] = taken.count(0)
        if not runs:
            self.cpus_left[place] -= jobs.cpus[row]
            self.memory_left_mib[place] -= _memory_mib(jobs, row)

    def close(self, place: int) -> None:
        """Let nobody come to this node: somebody has whole GPUs there, and which is not told."""
        self.taken[place][:] = [SLOTS] * len(self.taken[place])
        self.free[place] = 0

    def whole(self, place: int, gpus: int) -> tuple[int, ...]:
        """So many GPUs of a node that nobody has."""
        return tuple(gpu for gpu, taken in enumerate(self.taken[place]) if not taken)[:gpus]


def shared_nodes(view: View, partition: str) -> SharedNodes:
    """The usable nodes with GPUs of the sharing *partition*, with all that run there or are on their way.

    None while that partition is not up: what is sent there would not start.
    """
    nodes, up = view.nodes, dict(zip(view.partitions.name, view.partitions.up.tolist(), strict=True))
    here = nodes.partitions.map([partition in names.split(",") for names in nodes.partitions.names], np.bool_)
    rows = np.flatnonzero(here & nodes.usable & (nodes.gpus > 0) & up.get(partition, False))
    rows = rows[np.argsort(np.array([nodes.name[row] for row in rows.tolist()], dtype=object), kind="stable")]
    found = SharedNodes(
        tuple(nodes.name[row] for row in rows.tolist()),
        tuple(frozenset(nodes.partitions[row].split(",")) for row in rows.tolist()),
        tuple(nodes.gpu_type[row] for row in rows.tolist()),
        (nodes.cpus - nodes.cpus_used)[rows],
        (nodes.memory_mib - nodes.memory_used_mib)[rows],
        tuple([0] * gpus for gpus in nodes.gpus[rows].tolist()),
        nodes.gpus[rows].copy(),
    )
    for jobs, runs in ((view.running, True), (view.pending, False)):
        _count(found, jobs, runs)
    return found


def gpus_of(jobs: JobTable, row: int) -> tuple[int, ...]:
    """The GPUs of which a job has slots, or is to have them by a token of ours; none where it shares none."""
    if slots := slots_in(jobs.per_node[row]):
        return slots
    token = token_of(jobs, row)
    return token.gpus if token else ()


def token_of(jobs: JobTable, row: int) -> Token | None:
    """Our token in a job's comment; None where there is none, or it is not ours."""
    share = read(jobs.comment[row])[0].share if jobs.shares[row] else None
    return Token.of(share) if share else None


def _count(found: SharedNodes, jobs: JobTable, runs: bool) -> None:
    column = jobs.node_list if runs else jobs.required_nodes
    there = frozenset[str]().union(*found.partitions)
    some = (
        jobs.partition.map([not there.isdisjoint(names.split(",")) for names in jobs.partition.names], np.bool_)
        if runs
        else column.map([name in found.at for name in column.names], np.bool_)
    )
    for row in np.flatnonzero(some).tolist():
        host, gpus = column[row], gpus_of(jobs, row)
        if gpus and host in found.at:
            found.take(found.at[host], jobs, row, gpus, runs=runs)
        elif runs and not gpus and jobs.gpus[row] > 0:
            for name in expand(host):
                if name in found.at:
                    found.close(found.at[name])


def _memory_mib(jobs: JobTable, row: int) -> float:
    return float(np.nan_to_num(jobs.memory_mib[row]))
