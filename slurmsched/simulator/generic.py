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
    level: IntArray = field(init=False)  #: steps of attained service passed

    def __post_init__(self) -> None:
        count = len(self.submit_s)
        self.start_s, self.end_s = np.full(count, np.nan), np.full(count, np.nan)
        self.nodes, self.stops, self.level = (np.zeros(count, dtype=np.int64) for _ in range(3))
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

    def step_at(self, row: int, steps: tuple[float, ...]) -> float:
        """When a running job passes its next step."""
        return float(self.since_s[row] + steps[self.level[row]] / self.gpus[row] - self.ran_s[row])

    def pass_steps(self, row: int, steps: tuple[float, ...], now_s: float) -> None:
        """Count the steps a running job has passed by now."""
        while self.level[row] < len(steps) and self.step_at(row, steps) <= now_s:
            self.level[row] += 1

    def stop(self, row: int, now_s: float) -> None:
        """A job yields; what it has done is kept, going on costs its restart."""
        self.ran_s[row] += now_s - self.since_s[row]
        self.left_s[row] += self.since_s[row] - now_s + self.restart_s[row]
        self.stops[row] += 1
        give_back(self.site, self._grants, row)


def replay(
    books: Books, keys: Keys, *, steps: tuple[float, ...] = (), strict: bool = False, preemptive: bool = False
) -> None:
    """Run the trace, deciding at every arrival and end, and where a job passes one of *steps* of attained service."""
    count = len(books.submit_s)
    waiting: list[int] = []
    running: list[int] = []
    arrived = 0
    while arrived < count or running:
        ends = [float(books.since_s[row] + books.left_s[row]) for row in running]
        now_s = min([*ends, *books.submit_s[arrived : arrived + 1].tolist(), *_next_steps(books, running, steps)])
        for row in [row for row, end_s in zip(running, ends, strict=True) if end_s <= now_s]:
            books.end(row)
            running.remove(row)
        for row in running:
            books.pass_steps(row, steps, now_s)
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


def _next_steps(books: Books, running: list[int], steps: tuple[float, ...]) -> list[float]:
    """When each running job passes its next step."""
    return [books.step_at(row, steps) for row in running if books.level[row] < len(steps)]


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
