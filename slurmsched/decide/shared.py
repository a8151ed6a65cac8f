"""The nodes on which GPUs are shared, and which of their GPUs are taken how often. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cluster.comment import read
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..cluster.tres import slots_in
from ..policies.slots import Token

SLOTS = 2  #: of each GPU


@dataclass
class SharedNode:
    """One node of the sharing partition; changes while jobs are placed."""

    name: str
    partitions: frozenset[str]
    gpu_type: str
    cpus_left: int
    memory_left_mib: float
    taken: list[int]  #: slots in use or on their way, by the number of the GPU

    def has_room(self, jobs: JobTable, row: int) -> bool:
        """Whether CPUs and memory are left for a job of *jobs*."""
        return bool(jobs.cpus[row] <= self.cpus_left and jobs.memory_mib[row] <= self.memory_left_mib)

    def take(self, jobs: JobTable, row: int, gpus: Sequence[int], *, runs: bool = False) -> None:
        """Count a job of *jobs* on these GPUs; Slurm has counted the CPUs of one that *runs*."""
        for gpu in gpus:
            if gpu < len(self.taken):
                self.taken[gpu] += 1
        if not runs:
            self.cpus_left -= int(jobs.cpus[row])
            self.memory_left_mib -= float(np.nan_to_num(jobs.memory_mib[row]))

    def whole(self) -> list[int]:
        """GPUs that nobody has."""
        return [gpu for gpu, taken in enumerate(self.taken) if not taken]


def shared_nodes(view: View, partition: str) -> dict[str, SharedNode]:
    """The usable nodes with GPUs of the sharing *partition* by name, with all that run there or are on their way."""
    nodes = view.nodes
    found = {}
    for row in np.flatnonzero(nodes.usable & (nodes.gpus > 0)).tolist():
        partitions = frozenset(nodes.partitions[row].split(","))
        if partition in partitions:
            found[nodes.name[row]] = SharedNode(
                nodes.name[row],
                partitions,
                nodes.gpu_type[row],
                int(nodes.cpus[row] - nodes.cpus_used[row]),
                float(nodes.memory_mib[row] - nodes.memory_used_mib[row]),
                [0] * int(nodes.gpus[row]),
            )
    for jobs, runs in ((view.running, True), (view.pending, False)):
        places = jobs.node_list if runs else jobs.required_nodes
        some = places.map([name in found for name in places.names], np.bool_)
        for row in np.flatnonzero(some).tolist():
            if gpus := gpus_of(jobs, row):
                found[places[row]].take(jobs, row, gpus, runs=runs)
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
