"""How long jobs would wait for GPUs of their own: a plain estimate, to weigh sharing against. Pure."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels
from ..cluster.state import View

MOST = 1000  #: jobs of one list of partitions that are looked at, those to run soonest


def own_waits_s(view: View, ranked: IntArray, without: str) -> FloatArray:
    """Seconds from now until each pending job starts on whole GPUs; infinite where that cannot be told.

    The jobs of each list of partitions, in the order of *ranked*, start one after the other, each as soon as enough
    GPUs of those partitions are free: now, or when what runs there ends by its forecast. No job is backfilled, nodes
    have no borders, and jobs that name other partitions of the same nodes are not counted. The partition *without* has
    no GPUs of this kind.
    """
    jobs = view.pending
    waits_s = np.full(len(jobs), np.inf)
    for code in np.unique(jobs.partition.codes[ranked]).tolist():
        names = frozenset(jobs.partition.names[code].split(",")) - {without}
        rows = ranked[(jobs.partition.codes[ranked] == code) & (jobs.gpus[ranked] > 0)][:MOST]
        if len(rows):
            waits_s[rows] = _played(view, rows, names)
    return waits_s


def left_s(view: View) -> FloatArray:
    """Forecast seconds until each running job ends; 0 where it should have ended."""
    runtime_s = np.fmin(view.forecast_running.runtime_s, view.running.time_limit_s)
    return np.maximum(runtime_s - (view.now_s - view.running.started_s), 0.0)


def _played(view: View, rows: IntArray, names: frozenset[str]) -> FloatArray:
    jobs, nodes = view.pending, view.nodes
    here = _names(nodes.partitions, names) & nodes.usable
    total, free = int(nodes.gpus[here].sum()), int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[here].sum())
    runs = np.flatnonzero(_names(view.running.partition, names) & (view.running.gpus > 0))
    ends = list(zip(left_s(view)[runs].tolist(), view.running.gpus[runs].tolist(), strict=True))
    heapify(ends)
    runtime_s = np.fmin(view.forecast.runtime_s, jobs.time_limit_s)[rows]
    waits_s = np.full(len(rows), np.inf)
    at_s = 0.0
    for place, (gpus, tasks) in enumerate(zip(jobs.gpus[rows].tolist(), jobs.tasks[rows].tolist(), strict=True)):
        if gpus > total:
            continue
        needs = min(gpus * tasks, total)
        while free < needs and ends:
            end_s, given = heappop(ends)
            at_s, free = max(at_s, end_s), free + given
        if free < needs or not np.isfinite(at_s):
            break
        waits_s[place], free = at_s, free - needs
        heappush(ends, (at_s + float(runtime_s[place]), needs))
    return waits_s


def _names(column: Labels, names: frozenset[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]]
    found = column.map([not names.isdisjoint(text.split(",")) for text in column.names], np.bool_)
    return found
