"""The nodes with shared GPUs, and the number of slots taken of each GPU. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.may_have import Allowances, MayHave
from ...cluster.state import View
from ...cluster.text.hostlist import expand
from ...cluster.text.tres import requests_in, slots_in
from ...policies.links import GpuLinks, lowest
from ...policies.sharing_slots import Token
from ..rules import SharingRules

SLOTS = 2  #: of each GPU


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The usable nodes of the sharing partition, in the order of their names; changes while jobs are placed."""

    names: tuple[str, ...]
    partitions: tuple[frozenset[str], ...]
    gpu_types: tuple[str, ...]
    cpus_left: IntArray
    memory_left_mib: FloatArray
    taken: IntArray  #: shape (node, GPU number): slots in use or on their way; SLOTS for a GPU that does not exist
    free: IntArray  #: free GPUs per node
    gpus: IntArray  #: GPUs per node
    may: MayHave  #: what a job may have of each of them
    links: GpuLinks | None = None  #: between the GPUs of each node that has as many; None where they are unknown

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def at(self) -> dict[str, int]:
        """The index of each node by its name."""
        return {name: place for place, name in enumerate(self.names)}

    def can_hold(self, jobs: JobTable, row: int) -> BoolArray:
        """Select nodes with CPUs and memory left for the job in *row* of *jobs*."""
        memory_mib = _memory_mib(jobs, row)
        fits = (self.cpus_of(jobs, row) <= self.cpus_left) & (memory_mib <= self.memory_left_mib)
        return np.asarray(fits & (memory_mib <= self.may.memory_mib), dtype=np.bool_)

    def has_room(self, place: int, jobs: JobTable, row: int) -> bool:
        """Return whether node *place* has CPUs and memory left for the job in *row* of *jobs*."""
        return bool(self.can_hold(jobs, row)[place])

    def take(self, place: int, jobs: JobTable, row: int, gpus: Sequence[int]) -> None:
        """Count the job in *row* of *jobs* on these GPUs of node *place*."""
        there = [gpu for gpu in gpus if gpu < self.taken.shape[1]]
        self.taken[place, there] += 1
        self.free[place] = np.count_nonzero(self.taken[place] == 0)
        self.cpus_left[place] -= self.cpus_of(jobs, row)
        self.memory_left_mib[place] -= _memory_mib(jobs, row)

    def cpus_of(self, jobs: JobTable, row: int) -> int:
        """Return the CPUs that a job has there, and pays for."""
        return int(self.may.charged_cpus(int(jobs.cpus[row]), _memory_mib(jobs, row)))

    def whole(self, place: int, gpus: int) -> tuple[int, ...]:
        """Return the *gpus* free GPUs of node *place* with the best links between them."""
        return self.best(place, np.flatnonzero(self.taken[place] == 0).tolist(), gpus)

    def best(self, place: int, among: Sequence[int], gpus: int) -> tuple[int, ...]:
        """Return *gpus* of those *among* which a job on node *place* may choose: by links, else the lowest."""
        if self.links is None or len(self.links.gbps) != self.gpus[place]:
            return lowest(among, gpus)
        return self.links.best(among, gpus)

    def open_gpus(self, place: int, gpus: Sequence[int]) -> tuple[int, ...]:
        """Return those of the *gpus* of a job on node *place* on which it is alone, rising."""
        return tuple(gpu for gpu in sorted(gpus) if gpu < self.taken.shape[1] and self.taken[place, gpu] == 1)

    def open_counts(self, places: IntArray, of: IntArray, gpus: IntArray) -> IntArray:
        """Return the number of GPUs on which each job is alone; *places* is the node of each job.

        *gpus* are the GPU numbers of all jobs together, *of* the index of the job of each GPU.
        """
        is_real = gpus < self.taken.shape[1]
        of, gpus = of[is_real], gpus[is_real]
        return np.bincount(of[self.taken[places[of], gpus] == 1], minlength=len(places))


def shared_nodes(view: View, rules: SharingRules) -> SharedNodes:
    """Return the usable GPU nodes of the sharing partition, with jobs there or on their way counted.

    There are no nodes while the partition is not up: a job sent there would not start.
    """
    partition = rules.partition
    nodes, up = view.nodes, dict(zip(view.partitions.name, view.partitions.up.tolist(), strict=True))
    here = nodes.partitions.map([partition in names.split(",") for names in nodes.partitions.names], np.bool_)
    some = np.flatnonzero(here & nodes.usable & (nodes.gpus > 0) & up.get(partition, False))
    rows = np.array(sorted(some.tolist(), key=nodes.name.__getitem__), dtype=np.int64)
    gpus, may = nodes.gpus[rows], Allowances(nodes, view.partitions).on(partition).take(rows)
    numbers = np.arange(int(gpus.max(initial=0)))
    counted = SharedNodes(
        tuple(nodes.name.take(rows)),
        tuple(frozenset(names.split(",")) for names in nodes.partitions.take(rows)),
        tuple(nodes.gpu_type.take(rows)),
        may.cpus - nodes.cpus_used[rows],
        (nodes.memory_mib - nodes.memory_used_mib)[rows],
        np.where(numbers < gpus[:, None], 0, SLOTS),
        gpus.copy(),
        gpus,
        may,
        GpuLinks(rules.links) if rules.links else None,
    )
    _count_running(counted, view.running)
    _count_coming(counted, view.pending)
    counted.free[:] = (counted.taken == 0).sum(axis=1)
    return counted


def gpus_of(jobs: JobTable, row: int) -> tuple[int, ...]:
    """Return the GPUs of which a job has slots, or will have by our token; empty if it shares none."""
    if slots := slots_in(jobs.per_node[row]):
        return slots
    token = token_of(jobs, row)
    return token.gpus if token else ()


def gpus_of_all(jobs: JobTable, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return ``gpus_of`` for many *rows* as two columns: the index in *rows* and the number of each GPU."""
    slots = [slots_in(text) for text in jobs.per_node.names]
    codes = jobs.per_node.codes[rows]
    many = np.array([len(numbers) for numbers in slots], dtype=np.int64)
    numbers = np.array([*chain.from_iterable(slots)], dtype=np.int64)
    count = many[codes]
    of = np.repeat(np.arange(len(rows)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    gpus = numbers[np.repeat((np.cumsum(many) - many)[codes], count) + within]
    half_way = np.flatnonzero((count == 0) & jobs.shares[rows])
    held = [(at, gpu) for at in half_way.tolist() for gpu in gpus_of(jobs, int(rows[at]))]
    if not held:
        return of, gpus
    more = np.array(held, dtype=np.int64)
    return np.concatenate([of, more[:, 0]]), np.concatenate([gpus, more[:, 1]])


def pairs_on(places: IntArray, of: IntArray, gpus: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pairs of jobs on one GPU as two columns of indices; arguments as those of ``open_counts``."""
    order = np.lexsort((gpus, places[of]))
    of, gpus = of[order], gpus[order]
    same = (places[of[1:]] == places[of[:-1]]) & (gpus[1:] == gpus[:-1])
    return of[:-1][same], of[1:][same]


def token_of(jobs: JobTable, row: int) -> Token | None:
    """Return our share token in a job's comment; None if there is none, or it is not ours."""
    return Token.of(jobs.share_token[row]) if jobs.shares[row] else None


def _count_running(nodes: SharedNodes, jobs: JobTable) -> None:
    """Count jobs with slots; a node with a job on whole GPUs is closed, since its GPU numbers are unknown."""
    there = frozenset[str]().union(*nodes.partitions)
    rows = np.flatnonzero(
        jobs.partition.map([not there.isdisjoint(names.split(",")) for names in jobs.partition.names], np.bool_)
    )
    of, gpus = gpus_of_all(jobs, rows)
    places = jobs.node_list.map([nodes.at.get(name, -1) for name in jobs.node_list.names], np.int64)[rows]
    _count(nodes, places[of], gpus)
    requests_gpus = jobs.per_node.map(["gpu" in requests_in(text) for text in jobs.per_node.names], np.bool_)[rows]
    whole = requests_gpus | (np.bincount(of, minlength=len(rows)) == 0) & (jobs.gpus[rows] > 0)
    for row in rows[whole].tolist():
        for name in expand(jobs.node_list[row]):
            if name in nodes.at:
                nodes.taken[nodes.at[name]] = SLOTS


def _count_coming(nodes: SharedNodes, jobs: JobTable) -> None:
    """Count jobs on their way with CPUs and memory; Slurm has counted those of running jobs."""
    places = jobs.required_nodes.map([nodes.at.get(name, -1) for name in jobs.required_nodes.names], np.int64)
    rows = np.flatnonzero(places >= 0)
    of, gpus = gpus_of_all(jobs, rows)
    _count(nodes, places[rows][of], gpus)
    for row in rows[np.unique(of)].tolist():
        nodes.cpus_left[places[row]] -= nodes.cpus_of(jobs, row)
        nodes.memory_left_mib[places[row]] -= _memory_mib(jobs, row)


def _count(nodes: SharedNodes, places: IntArray, gpus: IntArray) -> None:
    is_real = (places >= 0) & (gpus < nodes.taken.shape[1])
    np.add.at(nodes.taken, (places[is_real], gpus[is_real]), 1)


def _memory_mib(jobs: JobTable, row: int) -> float:
    memory_mib = float(jobs.memory_mib[row])
    return 0.0 if math.isnan(memory_mib) else memory_mib
