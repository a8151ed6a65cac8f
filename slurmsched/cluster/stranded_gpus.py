"""GPUs that are free while jobs wait, and that none of these can use: CPUs or memory of their node are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import BoolArray, FloatArray, IntArray
from .jobs import JobTable
from .nodes import NodeTable
from .outlook.free_gpus import FreeGpus
from .state import ClusterState
from .text.hostlist import expanded

LONGEST_S = 300.0  #: the longest time for which one observation counts: between two of them nothing is known
MOST = 10_000  #: owners in memory, those that strand GPUs now
HOUR_S = 3600.0


@dataclass(frozen=True)
class StrandedBy:
    """The GPU-hours that stood idle because jobs of a user took more of a node than their GPUs' part of it."""

    account: str
    user: str
    cpu_gpu_hours: float  #: for want of CPUs
    memory_gpu_hours: float  #: for want of memory


class StrandedGpus:
    """GPU-hours by account and user since this process began. Called from the cycle's thread, except for ``table``."""

    def __init__(self) -> None:
        self._hours: dict[tuple[str, str], tuple[float, float]] = {}
        self._last_s: float | None = None
        self._table: tuple[StrandedBy, ...] = ()

    def observe(self, state: ClusterState, now_s: float) -> None:
        """Add what was stranded since the last observation."""
        last_s, self._last_s = self._last_s, now_s
        lasted_s = 0.0 if last_s is None else min(max(now_s - last_s, 0.0), LONGEST_S)
        if not lasted_s:
            return
        rows, cpu, memory = stranded(state)
        if not len(rows):
            return
        jobs = state.running
        for row, cpu_gpus, memory_gpus in zip(rows.tolist(), cpu.tolist(), memory.tolist(), strict=True):
            owner = jobs.account[row], jobs.user[row]
            before = self._hours.pop(owner, (0.0, 0.0))
            hours = lasted_s / HOUR_S
            self._hours[owner] = before[0] + cpu_gpus * hours, before[1] + memory_gpus * hours
        while len(self._hours) > MOST:
            del self._hours[next(iter(self._hours))]
        found = (StrandedBy(*owner, *hours) for owner, hours in self._hours.items())
        self._table = tuple(sorted(found, key=lambda one: (-one.cpu_gpu_hours - one.memory_gpu_hours, one.account)))

    def table(self) -> tuple[StrandedBy, ...]:
        """Return who stranded GPUs, the most first."""
        return self._table


def stranded(state: ClusterState) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return rows of running jobs with the GPUs that each strands now, for want of CPUs and of memory.

    A free GPU is stranded if its node has fewer CPUs, or less memory, than the most modest waiting job takes with a
    GPU. Jobs answer for that by what they have beyond the part of the node that belongs to their GPUs.
    """
    nodes, waiting, nobody = state.nodes, state.pending, (np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    wants = np.flatnonzero(waiting.gpus > 0)
    if not len(wants):
        return nobody
    gpus = waiting.gpus[wants]
    least_cpus = float(np.min(np.maximum(waiting.cpus[wants], 1) / gpus))
    least_mib = float(np.min(waiting.memory_mib[wants] / gpus))
    free = np.where(nodes.usable, np.maximum(nodes.gpus - nodes.gpus_used, 0), 0)
    by_cpus = np.floor(np.maximum(nodes.cpus - nodes.cpus_used, 0) / least_cpus)
    left_mib = np.maximum(nodes.memory_mib - nodes.memory_used_mib, 0.0)
    by_memory = np.floor(left_mib / least_mib) if least_mib > 0 else np.full(len(free), np.inf)
    lost = free - np.minimum(free, np.minimum(by_cpus, by_memory))
    if not lost.any():
        return nobody
    for_cpus = by_cpus <= by_memory
    jobs, node, cpus, mib = _beyond_their_part(state.running, nodes, lost > 0)
    cpu = _charged(node, cpus, np.where(for_cpus, lost, 0.0))
    memory = _charged(node, mib, np.where(for_cpus, 0.0, lost))
    return jobs, cpu, memory


def _charged(node: IntArray, beyond: FloatArray, lost: FloatArray) -> FloatArray:
    """Return the part of the *lost* GPUs of its node that each job answers for."""
    whole = np.bincount(node, beyond, len(lost))[node]
    return np.where(whole > 0, lost[node] * beyond / np.maximum(whole, 1e-300), 0.0)


def _beyond_their_part(
    running: JobTable, nodes: NodeTable, here: BoolArray
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return each running job on each node *here*: rows of both, and the CPUs and memory beyond its GPUs' part."""
    job, node, _ = FreeGpus(running, nodes, nodes.ready_s).held
    job, node = job[here[node]], node[here[node]]
    count = running.node_list.map([max(len(expanded(text)), 1) for text in running.node_list.names], np.int64)
    part = running.gpus[job] / count[job] / np.maximum(nodes.gpus[node], 1)
    cpus = np.maximum(running.cpus[job] / count[job] - part * nodes.cpus[node], 0.0)
    mib = np.maximum(running.memory_mib[job] / count[job] - part * nodes.memory_mib[node], 0.0)
    return job, node, cpus, mib
