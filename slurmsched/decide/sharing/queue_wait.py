"""Queue wait: estimate the wait of jobs for their own GPUs, to compare sharing with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.state import View

MOST = 1000  #: number of jobs considered per list of partitions, the first to run
_AT_ONCE = 1000  #: jobs whose columns are read together


def own_waits_s(view: View, ranked: IntArray, without: str) -> FloatArray:
    """Return the seconds until each pending job starts on whole GPUs, from ``waits``; infinite for jobs not ranked."""
    waits_s = np.full(len(view.pending), np.inf)
    for row, wait_s in waits(view, ranked, without):
        waits_s[row] = wait_s
    return waits_s


def waits(view: View, ranked: IntArray, without: str) -> Iterator[tuple[int, float]]:
    """Yield the row of each *ranked* pending job, in this order, and the seconds until it starts on whole GPUs.

    The jobs of each list of partitions start one after the other, each as soon as enough GPUs of those partitions are
    free, by ``View.gpus_free_s``. There is no backfill, node boundaries do not count, and jobs that wait in other
    partitions of the same nodes are ignored. GPUs of the partition *without* do not count. The wait is infinite if
    unknown, and for jobs without GPUs. It depends only on earlier jobs, so that a caller may stop early.
    """
    jobs = view.pending
    runtime_s = np.fmin(view.forecast.runtime_s, jobs.time_limit_s)
    lines: dict[int, _Line] = {}
    everywhere = not len(view.partitions)  # then each job may use all nodes
    for begin in range(0, len(ranked), _AT_ONCE):
        rows = ranked[begin : begin + _AT_ONCE]
        columns = (rows, jobs.partition.codes[rows], jobs.gpus[rows], jobs.tasks[rows], runtime_s[rows])
        for row, code, gpus, tasks, run_s in zip(*(column.tolist() for column in columns), strict=True):
            if gpus <= 0:
                yield row, np.inf
                continue
            place = 0 if everywhere else code
            if place not in lines:
                names = None if everywhere else frozenset(jobs.partition.names[code].split(",")) - {without}
                lines[place] = _Line(view, names)
            yield row, lines[place].wait_s(gpus, tasks, run_s)


class _Line:
    """A queue of one list of partitions."""

    def __init__(self, view: View, names: frozenset[str] | None) -> None:
        here = _in_one_of(view.nodes.partitions, names)
        free_s = view.gpus_free_s[here]
        self._total = int(view.free_gpus.total[here].sum())
        self._free = int(view.free_gpus.now[here].sum())
        ends_s, gpus = np.unique(free_s[(free_s > 0) & np.isfinite(free_s)], return_counts=True)
        self._ends = list(zip(ends_s[::-1].tolist(), gpus[::-1].tolist(), strict=True))  # the soonest last
        self._started: list[tuple[float, int]] = []
        self._at_s = 0.0
        self._looks = MOST

    def wait_s(self, gpus: int, tasks: int, runtime_s: float) -> float:
        """Return the wait of the next job, which then runs for *runtime_s*; infinite after a job that never starts."""
        self._looks -= 1
        if self._looks < 0 or gpus > self._total:
            return np.inf
        needs = min(gpus * tasks, self._total)
        while self._free < needs and (self._ends or self._started):
            waited = not self._ends or (self._started and self._started[0] <= self._ends[-1])
            end_s, given = heappop(self._started) if waited else self._ends.pop()
            self._at_s, self._free = max(self._at_s, end_s), self._free + given
        if self._free < needs or self._at_s == np.inf:
            self._looks = 0
            return np.inf
        self._free -= needs
        heappush(self._started, (self._at_s + runtime_s, needs))
        return self._at_s


def _in_one_of(column: Labels, names: frozenset[str] | None) -> BoolArray:
    """Select the rows that name one of the partitions *names*; all rows for None."""
    if names is None:
        return np.ones(len(column), dtype=np.bool_)
    named: BoolArray = column.map([not names.isdisjoint(text.split(",")) for text in column.names], np.bool_)
    return named
