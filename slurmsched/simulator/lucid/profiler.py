"""The profiling partition before the queue proper: least GPUs first, each for a short time (Lucid, Algorithm 1)."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ..workload.workload import Workload


class ProfilingResult(NamedTuple):
    """What became of each job in the profiling partition."""

    left_s: FloatArray  #: when it left, by its end, by the limit, or because it had waited too long; NaN: never there
    ran: BoolArray  #: it started there, so that its profile is known
    done: BoolArray  #: it ended there


def profiled(jobs: Workload, gpus: int, *, widest: int, limit_s: float, patience_s: float) -> ProfilingResult:
    """All *jobs* of 1 to *widest* GPUs through a partition of *gpus* GPUs, *limit_s* each.

    Least GPUs go first, then who came first. Who waited *patience_s* leaves without having run. GPUs are taken as one
    pool.
    """
    length = len(jobs)
    found = ProfilingResult(np.full(length, np.nan), np.zeros(length, np.bool_), np.zeros(length, np.bool_))
    rows = np.flatnonzero((jobs.gpus > 0) & (jobs.gpus <= min(widest, gpus))).tolist()
    submit_s, wanted, stays_s = jobs.submit_s.tolist(), jobs.gpus.tolist(), np.minimum(jobs.runtime_s, limit_s).tolist()
    waiting: list[tuple[int, int]] = []
    running: list[tuple[float, int]] = []
    free, next_, now_s = gpus, 0, -np.inf
    while next_ < len(rows) or waiting or running:
        coming_s = submit_s[rows[next_]] if next_ < len(rows) else np.inf
        now_s = min(coming_s, running[0][0] if running else np.inf)
        while running and running[0][0] <= now_s:
            free += wanted[heapq.heappop(running)[1]]
        while next_ < len(rows) and submit_s[rows[next_]] <= now_s:
            heapq.heappush(waiting, (wanted[rows[next_]], rows[next_]))
            next_ += 1
        while waiting:
            _, row = waiting[0]
            if submit_s[row] + patience_s < now_s:
                found.left_s[row] = submit_s[row] + patience_s
            elif wanted[row] <= free:
                free -= wanted[row]
                found.left_s[row] = now_s + stays_s[row]
                found.ran[row] = True
                heapq.heappush(running, (now_s + stays_s[row], row))
            else:
                break
            heapq.heappop(waiting)
    found.done[:] = found.ran & (jobs.runtime_s <= limit_s)
    return found
