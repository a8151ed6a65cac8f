"""The event loop for any ordering: at each decision it shows the policy a View, as the daemon would.

Slow beside the compiled loops and the same in its results; what those loops do is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from .grants import Site, give_back, grant, no_grants

Keys = Callable[[float, IntArray, FloatArray], FloatArray]
"""The ordering's key of *rows*, at a time, given how long each job has run."""


@dataclass
class Books:
    """Everything the loop knows of a replay; columns have one row per job, in submit order."""

    submit_s: FloatArray
    runtime_s: FloatArray
    gpus: IntArray
    restart_s: FloatArray
    site: Site
    start_s: FloatArray = field(init=False)
    end_s: FloatArray = field(init=False)
    nodes: IntArray = field(init=False)
    stops: IntArray = field(init=False)
    ran_s: FloatArray = field(init=False)
    left_s: FloatArray = field(init=False)
    since_s: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.submit_s)
        self.start_s, self.end_s = np.full(count, np.nan), np.full(count, np.nan)
        self.nodes, self.stops = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.ran_s, self.left_s, self.since_s = np.zeros(count), self.runtime_s.copy(), np.full(count, np.nan)
        self._grants = no_grants(count, self.site.free)

    def start(self, row: int, now_s: float) -> bool:
        """Start a job if the nodes have room for it."""
        placed = grant(self.site, self._grants, row, int(self.gpus[row]))
        if placed:
            self.since_s[row] = now_s
            self.start_s[row] = now_s if np.isnan(self.start_s[row]) else self.start_s[row]
            self.nodes[row] = max(self.nodes[row], placed)
        return placed > 0

    def end(self, row: int) -> None:
        """A job is done."""
        self.end_s[row] = self.since_s[row] + self.left_s[row]
        give_back(self.site, self._grants, row)

    def stop(self, row: int, now_s: float) -> None:
        """A job yields; what it has done is kept, going on costs its restart."""
        self.ran_s[row] += now_s - self.since_s[row]
        self.left_s[row] += self.since_s[row] - now_s + self.restart_s[row]
        self.stops[row] += 1
        give_back(self.site, self._grants, row)


def replay(books: Books, keys: Keys, *, strict: bool = False, preemptive: bool = False) -> None:
    """Run the trace, deciding at every arrival and end."""
    count = len(books.submit_s)
    waiting: list[int] = []
    running: list[int] = []
    arrived = 0
    while arrived < count or running:
        ends = [float(books.since_s[row] + books.left_s[row]) for row in running]
        now_s = min([*ends, *books.submit_s[arrived : arrived + 1].tolist()])
        for row in [row for row, end_s in zip(running, ends, strict=True) if end_s <= now_s]:
            books.end(row)
            running.remove(row)
        while arrived < count and books.submit_s[arrived] <= now_s:
            waiting.append(arrived)
            arrived += 1
        if preemptive:
            running, waiting = _repack(books, keys, running, waiting, now_s)
        else:
            for row in _in_order(keys, waiting, books.ran_s, now_s):
                if books.start(row, now_s):
                    waiting.remove(row)
                    running.append(row)
                elif strict:
                    break


def _in_order(keys: Keys, rows: list[int], ran_s: FloatArray, now_s: float) -> list[int]:
    if not rows:
        return []
    some = np.array(sorted(rows), dtype=np.int64)
    return [int(row) for row in some[np.argsort(keys(now_s, some, ran_s[some]), kind="stable")]]


def _repack(
    books: Books, keys: Keys, running: list[int], waiting: list[int], now_s: float
) -> tuple[list[int], list[int]]:
    """The best jobs that fit by GPU count run, running ones before waiting ones where keys are equal."""
    so_far_s = books.ran_s.copy()
    so_far_s[running] += now_s - books.since_s[running]
    rows = np.array(sorted(running) + sorted(waiting), dtype=np.int64)
    key = keys(now_s, rows, so_far_s[rows])
    is_waiting = np.arange(len(rows)) >= len(running)
    left = int(books.site.free.sum() + books.gpus[running].sum())
    chosen: list[int] = []
    for at in np.lexsort((rows, is_waiting, key)).tolist():
        if books.gpus[rows[at]] <= left:
            left -= int(books.gpus[rows[at]])
            chosen.append(int(rows[at]))
    for row in set(running) - set(chosen):
        books.stop(row, now_s)
    started = [row for row in chosen if row not in set(running) and books.start(row, now_s)]
    runs = {*(set(running) & set(chosen)), *started}
    return sorted(runs), sorted((set(running) | set(waiting)) - runs)
