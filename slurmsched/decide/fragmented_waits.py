"""Jobs that wait though enough GPUs are free in all: these are spread over nodes, blocks or switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.reasons import reason_of
from ..cluster.state import ClusterState
from ..policies.selection.allowed_nodes import allowed_nodes, binding
from ..policies.selection.unit_rules import job_rule, most_together

LONGEST_S = 300.0  #: the longest time for which one observation counts: between two of them nothing is known
JOBS_MOST = 200  #: the waiting jobs that one observation looks at, the first ones in Slurm's order
HOUR_S = 3600.0
NODES = "nodes"


@dataclass(frozen=True)
class Fragmentation:
    """GPU-hours that jobs waited for GPUs that were free and did not lie together."""

    over: str  #: what the free GPUs were spread over: nodes, blocks or switches
    gpu_hours: float
    jobs: int  #: that waited so


class _Wait(NamedTuple):
    row: int
    gpus: int
    over: str


class FragmentedWaits:
    """GPU-hours since this process began. Called from the cycle's thread, except for ``table``."""

    def __init__(self) -> None:
        self._hours: dict[str, float] = {}
        self._jobs: dict[str, set[int]] = {}
        self._waited: frozenset[int] = frozenset()
        self._last_s: float | None = None
        self._table: tuple[Fragmentation, ...] = ()

    def observe(self, state: ClusterState, now_s: float) -> None:
        """Add what jobs waited since the last observation; those that have only just come may start at once."""
        last_s, self._last_s = self._last_s, now_s
        lasted_s = 0.0 if last_s is None else min(max(now_s - last_s, 0.0), LONGEST_S)
        waits = list(fragmented_waits(state))
        before, self._waited = self._waited, frozenset(int(state.pending.job_id[one.row]) for one in waits)
        for row, gpus, over in waits:
            job = int(state.pending.job_id[row])
            if job in before and lasted_s:
                self._hours[over] = self._hours.get(over, 0.0) + gpus * lasted_s / HOUR_S
                self._jobs.setdefault(over, set()).add(job)
        self._table = tuple(
            Fragmentation(over, hours, len(self._jobs[over])) for over, hours in sorted(self._hours.items())
        )

    def table(self) -> tuple[Fragmentation, ...]:
        """Return over what free GPUs were spread, and how much jobs waited for that."""
        return self._table


def fragmented_waits(state: ClusterState) -> Iterator[_Wait]:
    """Yield the jobs for which enough GPUs are free in all and not together; what one could have counts for no other.

    Slurm has judged these jobs to wait for resources. Jobs for which CPUs or memory are missing are not among them, nor
    those that may spread their GPUs as Slurm likes.
    """
    jobs, nodes = state.pending, state.nodes
    if not (nodes.usable & (nodes.gpus > nodes.gpus_used)).any():
        return
    rows = _those_for_resources(jobs)
    if not len(rows):
        return
    some = jobs.take(rows)
    try:
        may_use = allowed_nodes(some, nodes, state.partitions, binding(some), some.excluded_nodes)
    except (KeyError, ValueError):  # partitions or nodes that changed since the jobs were read
        return
    taken = np.zeros(len(nodes), dtype=np.int64)
    for row, kind in zip(rows.tolist(), may_use.kind.tolist(), strict=True):
        free = np.maximum(nodes.free_gpus_of(jobs.gpu_type[row]) - taken, 0) * (nodes.usable & may_use.allowed[kind])
        gpus, many = int(jobs.gpus[row]), max(1, int(jobs.nodes[row]))
        if free.sum() < gpus:
            continue
        together = free >= -(-gpus // many)
        if jobs.exclusive[row]:
            together &= nodes.gpus_used == 0
        if together.sum() < many:
            over = NODES
        elif _lie_apart(state, row, together, many):
            over = "blocks" if state.topology.noun == "block" else "switches"
        else:
            continue
        yield _Wait(row, gpus, over)
        taken += _first(free, gpus)


def _those_for_resources(jobs: JobTable) -> IntArray:
    """Return the first pending jobs with GPUs that wait for resources, in Slurm's order."""
    waits = jobs.reason.map([_for_resources(text) for text in jobs.reason.names], np.bool_)
    rows = np.flatnonzero(waits & (jobs.gpus > 0) & ~jobs.per_job & (jobs.priority > 0))
    return rows[np.lexsort((jobs.job_id[rows], -jobs.priority[rows]))][:JOBS_MOST]


def _for_resources(text: str) -> bool:
    reason = reason_of(text)
    return reason.word == "Resources" or "topology" in text.lower()


def _lie_apart(state: ClusterState, row: int, open_: BoolArray, nodes: int) -> bool:
    """Report whether the *open_* nodes do not lie together as a job on so many needs them."""
    rule = job_rule(state.topology, state.pending.topology_request[row], nodes)
    return rule is not None and most_together(state.topology, rule, list(state.nodes.name), open_, nodes) < nodes


def _first(free: IntArray, gpus: int) -> IntArray:
    """Return so many *gpus* of those that are *free*, on the first nodes."""
    before = np.cumsum(free) - free
    return np.asarray(np.clip(gpus - before, 0, free), dtype=np.int64)
