"""Changes that kept a job from starting, and are not repeated until what stood against them has changed. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from ..cluster.avoided import UNKNOWN, Avoided, read_avoided
from ..cluster.columns import BoolArray
from ..cluster.jobs import JobTable
from ..cluster.limits import limits_of
from ..cluster.node_request import read_request
from ..cluster.reasons import Ends, reason_of
from ..cluster.state import View

REST_S = 3_600.0
"""The time in which a change is not repeated that ran into a limit which other jobs use up."""

STEER, RIGHTSIZE, RESIZE, MOVE = "steer", "rightsize", "resize", "partition"
"""The changes that a job can carry: of its excluded nodes, its CPUs and memory, its GPUs and nodes, its partitions."""


def not_repeated(view: View, jobs: JobTable, change: str) -> BoolArray:
    """Select *jobs*, pending or running ones, on which a *change* kept them from starting, and still would."""
    found = np.zeros(len(jobs), dtype=np.bool_)
    for row in np.flatnonzero(jobs.avoided.nonempty()).tolist():
        found[row] = avoids(view, jobs, row, change)
    return found


def avoids(view: View, jobs: JobTable, row: int, change: str) -> bool:
    """Return True if a *change* of one job is not repeated now."""
    return any(change in note.changes.split("+") for note in notes_in_force(view, jobs, row))


def notes_in_force(view: View, jobs: JobTable, row: int) -> Iterator[Avoided]:
    """Yield the changes of a job that are not repeated now.

    They may be as soon as it asks for something else by itself, as its nodes or the known limits change, or, where
    others used a limit up, after ``REST_S``.
    """
    notes = read_avoided(jobs.avoided[row])
    request, limits = digests(view, jobs, row) if notes else ("", "")
    for note in notes:
        limit = reason_of(note.reason).limit
        rests = limit is None or limit.ends is Ends.NEVER or view.now_s - note.at_s < REST_S
        parts = 1 if jobs is view.running else 2  # of a job that has started, only what a start does not change
        same = note.request.split(".")[:parts] == request.split(".")[:parts]
        if rests and same and (UNKNOWN in (note.limits, limits) or note.limits == limits):
            yield note


def digests(view: View, jobs: JobTable, row: int) -> tuple[str, str]:
    """Return the digests of what a job asks for by itself, with the nodes that it may use, and of the known limits."""
    own = read_request(jobs.own_request[row] or jobs.node_request[row])
    gpus, each = int(jobs.own_gpus[row] or jobs.gpus[row]), int(jobs.gpus_each[row])
    nodes = max(gpus // each if each else int(jobs.nodes[row]), 1)
    size = (own.cpus, own.per_task, own.node_memory_mib(nodes)) if own is not None else ()
    always = (jobs.account[row], jobs.qos[row], gpus)
    partitions = jobs.own_partition[row] or jobs.partition[row]
    waiting = (partitions, float(jobs.time_limit_s[row]), nodes, size, _nodes_of(view, partitions))
    known = [f"{limit}" for limit in limits_of(view.limits, view.partitions, jobs, row)] if len(view.limits) else []
    return f"{_digest(always)}.{_digest(waiting)}", _digest(sorted(known)) if known else UNKNOWN


def _nodes_of(view: View, partitions: str) -> tuple[object, ...]:
    """Return what the nodes of some *partitions* have, and what these allow."""
    names, nodes, table = set(partitions.split(",")), view.nodes, view.partitions
    inside = nodes.partitions.map([bool(names & set(text.split(","))) for text in nodes.partitions.names], np.bool_)
    rows = np.flatnonzero(inside).tolist()
    have = [
        (nodes.name[at], int(nodes.cpus[at]), float(nodes.memory_mib[at]), int(nodes.gpus[at]), nodes.gpu_type[at])
        for at in rows
    ]
    names_of_limits = ("max_time_s", "least_nodes", "most_nodes", "node_cpus", "node_memory_mib", "cpu_memory_mib")
    allow = [
        (name, *(float(getattr(table, limit)[at]) for limit in names_of_limits))
        for at, name in enumerate(table.name)
        if name in names
    ]
    return (*sorted(have), *sorted(allow))


def _digest(value: object) -> str:
    return f"{zlib.crc32(repr(value).encode('utf-8', 'surrogateescape')):08x}"
