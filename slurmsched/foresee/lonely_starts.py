"""Starts of pending jobs that are not played forward, where no other job waits for their nodes.

Such jobs ask for what the modelled cluster has no form for, or only a rough one, as GPUs of any type on a node with
several, or memory for each GPU. With nobody beside them they start as soon as what is free could hold them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.jobs import ANY_NODES, JobTable
from ..cluster.nodes import NodeTable, by_type
from ..cluster.reasons import ReasonKind, where_kind
from ..cluster.state import View
from ..explain.unclear_requests import unclear_requests
from ..policies.selection.could_hold import never
from ..policies.selection.job_spread import on_any_number

MOST_TIMES = 50
"""The ends of nodes' jobs that are looked at for one job."""


def placed_roughly(view: View) -> BoolArray:
    """Select the pending jobs for which the modelled cluster has fewer or more nodes than Slurm.

    They ask for GPUs of any type, or for whole nodes, where nodes have several types, or for GPUs of the whole job with
    CPUs or memory for each.
    """
    jobs, nodes = view.pending, view.nodes
    mixed = {name for row in np.flatnonzero(nodes.gpu_types.nonempty()) for name in nodes.partitions[row].split(",")}
    among = jobs.partition.map([bool(mixed & set(names.split(","))) for names in jobs.partition.names], np.bool_)
    of_any_type = among & (jobs.exclusive | (~jobs.gpu_type.nonempty() & ~on_any_number(jobs)))
    by_gpu = (jobs.most_nodes >= ANY_NODES) & jobs.per_job & (jobs.per_gpu | (jobs.gpu_cpus > 0))
    return np.asarray((jobs.gpus > 0) & (of_any_type | by_gpu), dtype=np.bool_)


def lonely_starts(view: View, rows: Iterable[int]) -> dict[int, float]:
    """Return when those of the pending *rows* start that are alone in their one partition (Unix seconds). Pure.

    A node counts with what is free of it now, and whole once its last job has ended, by the median of its forecast.
    """
    jobs = view.pending
    waits = (jobs.priority > 0) & ~where_kind(jobs, ReasonKind.CANNOT_RUN)
    waiting = np.bincount(jobs.partition.codes[waits], minlength=len(jobs.partition.names))[jobs.partition.codes]
    alone = [row for row in rows if waiting[row] <= 1 and _is_alone(view, row, waits)]
    unclear = unclear_requests(jobs) if alone else {}
    found = ((row, _start_s(view, row)) for row in alone if row not in unclear)
    return {row: start_s for row, start_s in found if np.isfinite(start_s)}


def _is_alone(view: View, row: int, waits: BoolArray) -> bool:
    """Report whether none but a job *waits* for nodes of its one partition, and no reservation has some."""
    jobs, name = view.pending, view.pending.partition[row]
    at = [place for place, one in enumerate(view.partitions.name) if one == name]
    if not at or len(view.reservations) or name in view.partitions.hidden_nodes or jobs.tasks[row] != 1:
        return False
    inside = _inside(view.nodes, {name})
    near = {one for one in view.partitions.name if (_inside(view.nodes, {one}) & inside).any()}
    shares = jobs.partition.map([bool(near & set(names.split(","))) for names in jobs.partition.names], np.bool_)
    return int((shares & waits).sum()) <= 1


def _inside(nodes: NodeTable, partitions: set[str]) -> BoolArray:
    inside: BoolArray = nodes.partitions.map(
        [bool(partitions & set(names.split(","))) for names in nodes.partitions.names], np.bool_
    )
    return inside


def _start_s(view: View, row: int) -> float:
    """Return when what is free could hold a job; infinite where that is not known."""
    job, nodes = view.pending.take(np.array([row])), view.nodes
    inside = np.flatnonzero(nodes.usable & _inside(nodes, {job.partition[0]}))
    some, ends_s = nodes.take(inside), _ends_s(view)[inside]
    begin_s = float(np.nan_to_num(job.eligible_s[0], nan=0.0))
    times_s = np.unique(np.maximum(ends_s[np.isfinite(ends_s)], view.now_s))[:MOST_TIMES]
    for time_s in np.unique(np.append(times_s, view.now_s)).tolist():
        if not never(job, _left(some, ends_s <= time_s, job), view.partitions):
            return max(float(time_s), begin_s)
    return np.inf


def _ends_s(view: View) -> FloatArray:
    """Return when the last job of each node has ended; infinite where something is in use by none that is shown."""
    nodes = view.nodes
    ends_s = np.where((nodes.cpus_used > 0) | (nodes.gpus_used > 0), -np.inf, view.now_s) + nodes.ready_s
    job, node, _ = view.free_gpus.held
    np.maximum.at(ends_s, node, view.now_s + view.remaining.median_s[job])
    return np.asarray(np.where(ends_s == -np.inf, np.inf, ends_s))


def _left(nodes: NodeTable, whole: BoolArray, job: JobTable) -> NodeTable:
    """Return the *nodes* with what is free of them, all of the *whole* ones; others give nothing to exclusive jobs."""
    texts = [
        text if all_free else "+".join(f"{kind}={nodes.free_gpus_of(kind)[at]}" for kind in by_type(text))
        for at, (text, all_free) in enumerate(zip(nodes.gpu_types, whole.tolist(), strict=True))
    ]
    none = bool(job.exclusive[0])

    def free(amount: IntArray | FloatArray, used: IntArray | FloatArray) -> FloatArray:
        return np.where(whole, amount, 0.0 if none else np.maximum(amount - used, 0.0))

    return nodes.changed(
        cpus=free(nodes.cpus, nodes.cpus_used).astype(np.int64),
        gpus=free(nodes.gpus, nodes.gpus_used).astype(np.int64),
        memory_mib=free(nodes.memory_mib, nodes.memory_used_mib),
        gpu_types=Labels.of(texts),
    )
