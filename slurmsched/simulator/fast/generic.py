"""The event loop for any ordering: at each decision the policy gets a View, as in the daemon.

It is slow but gives the same results as the compiled loops, which are checked against it. It shares with them the
placement of jobs and the plan of the reserving selections, not the admission, the clock or the queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from .allocations import NONE, give_back, grant, note
from .context import PoolContext
from .queue import NEVER
from .reserved_backfill import choose, desk_of

Keys = Callable[[float, IntArray, FloatArray], FloatArray]
"""The ordering's key of *rows* at a time, given how long each job has run."""


@dataclass
class Books:
    """The state of a replay; columns have one row per job, in submit order."""

    stage: PoolContext
    keys: Keys
    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which decisions are made
    outside: list[int] = field(default_factory=list)  #: arrived and not yet admitted
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    arrived: int = 0
    ran_s: FloatArray = field(init=False)
    left_s: FloatArray = field(init=False)
    since_s: FloatArray = field(init=False)
    level: IntArray = field(init=False)  #: steps passed

    def __post_init__(self) -> None:
        count = len(self.stage.trace.submit_s)
        self.ran_s, self.left_s = np.zeros(count), self.stage.trace.runtime_s.copy()
        self.since_s, self.level = np.full(count, np.nan), np.zeros(count, dtype=np.int64)

    @property
    def gpus(self) -> IntArray:
        """The GPUs that each job requests."""
        return self.stage.trace.gpus

    def next_s(self) -> float:
        """Return the time of the next arrival, end or step."""
        ahead = self.stage.trace.submit_s[self.arrived : self.arrived + 1].tolist()
        ahead += [self._end_s(row) for row in self.running]
        ahead += [self._step_s(row) for row in self.running if self.level[row] < len(self.steps)]
        return min(ahead, default=NEVER)

    def pass_time(self, last_s: float, now_s: float) -> None:
        """Account for idle GPUs up to *now_s*, then end the jobs that are due."""
        free, idle = int(self.stage.site.free.sum()), self.stage.result.idle
        if self.outside or self.waiting:
            idle[0] += free * (now_s - last_s)
        if any(self.gpus[row] <= free for row in self.waiting):
            idle[1] += free * (now_s - last_s)
        for row in [row for row in self.running if self._end_s(row) <= now_s]:
            self.stage.result.end_s[row] = self._end_s(row)
            self._leave(row, self._end_s(row))
        for row in self.running:
            while self.level[row] < len(self.steps) and self._step_s(row) <= now_s:
                self.level[row] += 1

    def let_in(self, now_s: float) -> None:
        """Queue arrived jobs and admit those that may come in."""
        submit_s = self.stage.trace.submit_s
        while self.arrived < len(submit_s) and submit_s[self.arrived] <= now_s:
            self.outside.append(self.arrived)
            self.arrived += 1
        while self.outside:
            inside = int(self.gpus[self.waiting + self.running].sum())
            if inside and inside + self.gpus[self.outside[0]] > self.stage.gate.most:
                return
            self.waiting.append(self.outside.pop(0))

    def start(self, row: int, now_s: float) -> bool:
        """Start a job if the nodes have room for it."""
        placed = int(grant(self.stage.site, self.stage.books, row, int(self.gpus[row])))
        if placed:
            self.begin(row, placed, now_s)
        return placed > 0

    def begin(self, row: int, placed: int, now_s: float) -> None:
        """Record that a waiting job has its GPUs on *placed* nodes."""
        result = self.stage.result
        self.waiting.remove(row)
        self.running.append(row)
        self.since_s[row] = now_s
        result.start_s[row] = now_s if np.isnan(result.start_s[row]) else result.start_s[row]
        result.nodes[row] = max(result.nodes[row], placed)

    def stop(self, row: int, now_s: float) -> None:
        """Preempt a job; its work is kept, and resuming it costs its restart time."""
        self.ran_s[row] += now_s - self.since_s[row]
        self.left_s[row] += self.since_s[row] - now_s + self.stage.trace.restart_s[row]
        self.stage.result.stops[row] += 1
        self._leave(row, now_s)
        self.waiting.append(row)

    def in_order(self, now_s: float) -> tuple[IntArray, FloatArray]:
        """Return the waiting jobs in the order of their keys, and the keys."""
        rows, keys = self.shown(now_s)
        rows, keys = rows[len(self.running) :], keys[len(self.running) :]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]

    def shown(self, now_s: float) -> tuple[IntArray, FloatArray]:
        """Return the running jobs, then the waiting ones, and their keys; a key may depend on the other jobs."""
        rows = np.array(sorted(self.running) + sorted(self.waiting), dtype=np.int64)
        ran_s = self.ran_s.copy()
        ran_s[self.running] += now_s - self.since_s[self.running]
        return rows, self.keys(now_s, rows, ran_s[rows])

    def validate(self) -> None:
        """Raise AssertionError where a job is in two lists, or those that hold GPUs are not those that run."""
        rows = self.outside + self.waiting + self.running
        assert len(set(rows)) == len(rows), "a job is in two lists"
        over = np.flatnonzero(~np.isnan(self.stage.result.end_s)).tolist()
        assert sorted(rows + over) == list(range(self.arrived)), "the listed jobs are not those that have arrived"
        holding = np.flatnonzero(self.stage.books.first[:-1] != NONE).tolist()
        assert sorted(self.running) == holding, "the jobs that hold GPUs are not those that run"

    def _leave(self, row: int, now_s: float) -> None:
        self.running.remove(row)
        if len(self.stage.log.row):
            note(self.stage.log, self.stage.books, row, self.since_s[row], now_s)
        give_back(self.stage.site, self.stage.books, row)

    def _end_s(self, row: int) -> float:
        return float(self.since_s[row] + self.left_s[row])

    def _step_s(self, row: int) -> float:
        return float(self.since_s[row] + self.steps[self.level[row]] / self.gpus[row] - self.ran_s[row])


Decide = Callable[[Books, float], None]
"""Starts and stops jobs at a time; called while some job waits."""


def checked(decide: Decide) -> Decide:
    """Return *decide*, followed by a check of the state that it leaves."""

    def decide_and_check(books: Books, now_s: float) -> None:
        decide(books, now_s)
        books.validate()

    return decide_and_check


def replay(books: Books, decide: Decide) -> None:
    """Run the trace, deciding at every event or at the context's beats."""
    beat_s, last_s, decide_s = books.stage.beat_s, 0.0, NEVER
    while (now_s := min(decide_s, books.next_s())) < NEVER:
        books.pass_time(last_s, now_s)
        books.let_in(now_s)
        last_s = now_s
        if beat_s > 0 and decide_s == NEVER:
            decide_s = math.ceil(now_s / beat_s) * beat_s
        if books.waiting and (beat_s <= 0 or now_s >= decide_s):
            decide(books, now_s)
            decide_s = now_s + beat_s if beat_s > 0 else NEVER
        if not books.waiting:
            decide_s = NEVER


def in_turn(strict: bool) -> Decide:
    """Return a rule that starts jobs in order; unless *strict*, later jobs may pass one that does not fit."""

    def decide(books: Books, now_s: float) -> None:
        for row in books.in_order(now_s)[0].tolist():
            if not books.start(row, now_s) and strict:
                break

    return decide


def reserving(how: int, limit_s: FloatArray, depth: int) -> Decide:
    """Return the rule of EASY or CONSERVATIVE backfill."""

    def decide(books: Books, now_s: float) -> None:
        desk = desk_of(books.stage, limit_s, depth)
        rows, keys = books.in_order(now_s)
        desk.queue.rows[: len(rows)], desk.queue.keys[: len(rows)], desk.queue.many[0] = rows, keys, len(rows)
        new = choose(desk, how, np.array(books.running, dtype=np.int64), now_s)
        for row in desk.chosen[:new].tolist():
            books.begin(row, 0, now_s)

    return decide


def repack(books: Books, now_s: float) -> None:
    """Run the best jobs that fit by GPU count; running ones come before waiting ones where keys are equal."""
    running = set(books.running)
    rows, key = books.shown(now_s)
    left = int(books.stage.books.unused[0] + books.gpus[books.running].sum())
    chosen: list[int] = []
    for at in np.lexsort((rows, np.arange(len(rows)) >= len(running), key)).tolist():
        if books.gpus[rows[at]] <= left:
            left -= int(books.gpus[rows[at]])
            chosen.append(int(rows[at]))
    for row in sorted(running - set(chosen)):
        books.stop(row, now_s)
    for row in chosen:
        if row not in running:
            books.start(row, now_s)
