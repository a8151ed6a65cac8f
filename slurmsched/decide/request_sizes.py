"""What CPUs and memory a pending job may ask for: by its owner's words, by its nodes, and by limits. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, Labels, Rows
from ..cluster.job_limits import JobLimits
from ..cluster.jobs import JobTable
from ..cluster.may_have import MayHave
from ..cluster.node_request import NodeRequest
from ..cluster.state import View
from .rules import Rules


def wanted(jobs: JobTable, rules: Rules, rows: Rows = slice(None)) -> BoolArray:
    """Select jobs of *rows* whose owner said what they need, or whose account the admin listed."""
    accounts = () if rules.rightsizing is None else rules.rightsizing.accounts
    return (jobs.cpus_best[rows] > 0) | (jobs.mem_best_mib[rows] > 0) | listed(jobs.account.take(rows), accounts)


def listed(account: Labels, accounts: tuple[str, ...]) -> BoolArray:
    """Select jobs whose account is one of *accounts*."""
    listed: BoolArray = account.map([name in accounts for name in account.names], np.bool_)
    return listed


class Share(NamedTuple):
    """What belongs to the GPUs that a job has on each of its nodes, on any node that it may use."""

    cpus: float
    memory_mib: float


def share_of(view: View, may: MayHave, gpus: int, nodes: BoolArray) -> Share:
    """Return the part of a node that belongs to so many *gpus*: the largest on any of *nodes*, not all of it."""
    have = view.nodes
    each = gpus / np.maximum(have.gpus[nodes], 1)
    memory_mib = np.minimum(have.memory_mib[nodes] * each, may.memory_mib[nodes])
    return Share(float((may.cpus[nodes] * each).max(initial=0.0)), float(memory_mib.max(initial=0.0)))


def fitting_nodes(may: MayHave, request: NodeRequest, count: int, nodes: BoolArray) -> int:
    """Return of how many of *nodes* a job on *count* nodes may have what it asks for on one, just as it asks for it."""
    if not may.takes_as_written(request, count):
        return 0
    return int((nodes & may.holds(request.node_cpus(count), request.node_memory_mib(count))).sum())


def size_refusal(limits: JobLimits, jobs: JobTable, row: int, size: NodeRequest) -> str:
    """Return why limits do not let a job ask for other CPUs and memory; empty if they do."""
    count = max(int(jobs.nodes[row]), 1)
    return limits.refusal(jobs, row, cpus=size.cpus, memory_mib=float(size.node_memory_mib(count) * count))
