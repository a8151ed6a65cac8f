"""The CPUs and memory that a pending job asks of its nodes, as Slurm has them, and other ones for the same tasks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .columns import Labels
from .jobs import JobTable

_TEXT = re.compile(r"cpus=([0-9]{1,9}),task=([0-9]{1,9}),node=([0-9]{1,9}),mem=([0-9]{1,12})M([nc])", re.ASCII)


@dataclass(frozen=True)
class NodeRequest:
    """What ``scontrol show job`` calls NumCPUs, CPUs/Task, MinCPUsNode, and MinMemoryNode or MinMemoryCPU.

    A job has as many tasks as ``per_task`` goes into ``cpus``. Slurm starts it with no less than ``per_node`` on a
    node: with less in ``cpus`` alone, it would have the old number again at its start (seen on 22.05).
    """

    cpus: int  #: of the whole job
    per_task: int
    per_node: int
    memory_mib: int  #: per CPU or per node
    per_cpu: bool

    def __str__(self) -> str:
        return f"cpus={self.cpus},task={self.per_task},node={self.per_node},mem={self.memory_mib}M{'nc'[self.per_cpu]}"

    @property
    def changeable(self) -> bool:
        """True if it is of a form of which other numbers keep the sense: CPUs for whole tasks, and some memory.

        Otherwise the job asks for a least number of CPUs per node apart from its tasks, or for all memory of a node.
        """
        if min(self.cpus, self.per_task, self.per_node, self.memory_mib) < 1:
            return False
        whole = self.cpus % self.per_task == 0 and self.per_node % self.per_task == 0
        return whole and self.per_node <= self.cpus

    def node_cpus(self, nodes: int) -> int:
        """Return the CPUs on the node with most of the job's tasks, over *nodes*."""
        return -(-self.tasks // max(nodes, 1)) * self.per_task

    def node_memory_mib(self, nodes: int) -> int:
        """Return the memory on that node."""
        return self.memory_mib * self.node_cpus(nodes) if self.per_cpu else self.memory_mib

    @property
    def tasks(self) -> int:
        """The number of the job's tasks."""
        return max(1, self.cpus // max(self.per_task, 1))

    def with_size(self, nodes: int, cpus: float, memory_mib: float) -> NodeRequest:
        """Return the request for at least *cpus* and *memory_mib* on a node, for the same tasks on as many *nodes*.

        Every task has the same number of CPUs. Memory is asked for per node: other CPUs would change it else.
        """
        per_task = max(1, math.ceil(cpus / -(-self.tasks // max(nodes, 1)) - 1e-9))
        per_node = self.per_node // self.per_task * per_task
        return NodeRequest(self.tasks * per_task, per_task, per_node, max(1, math.ceil(memory_mib - 1e-9)), False)


def requests_of(jobs: JobTable) -> Labels:
    """Return the requests of *jobs* with one task on each node, from their other columns."""
    whole_mib = np.rint(jobs.memory_mib).astype(np.int64)
    distinct, which = np.unique(np.stack([jobs.cpus, whole_mib, jobs.nodes]), axis=1, return_inverse=True)
    texts = [_one_task_per_node(*column) for column in distinct.T.tolist()]
    return Labels(which.reshape(-1).astype(np.int64), tuple(texts)).renamed(texts)


def _one_task_per_node(cpus: int, memory_mib: int, nodes: int) -> str:
    many = max(nodes, 1)
    return str(NodeRequest(cpus // many * many, cpus // many, cpus // many, memory_mib // many, False))


@lru_cache(maxsize=10_000)  # the same few requests come every cycle
def read_request(text: str) -> NodeRequest | None:
    """Return the request that a row of the column ``node_request`` stands for; None where it was not read."""
    match = _TEXT.fullmatch(text)
    return NodeRequest(int(match[1]), int(match[2]), int(match[3]), int(match[4]), match[5] == "c") if match else None


def request_of(cpus: int, per_task: int, per_node: int, memory_mib: float, total_mib: float, nodes: int) -> str:
    """Return the text of what squeue shows: *memory_mib* is per CPU or per node, whichever the *total_mib* says.

    Empty where it says neither; where both are the same, per node.
    """
    if not math.isfinite(memory_mib) or not math.isfinite(total_mib):
        return ""
    for times, per_cpu in ((nodes, False), (cpus, True)):
        if abs(memory_mib * times - total_mib) <= max(1.0, 0.01 * total_mib):  # squeue prints three digits of 62.50G
            return str(NodeRequest(cpus, per_task, per_node, round(memory_mib), per_cpu))
    return ""
