"""Backfill with reservations by time limits: EASY (for the first waiting job) and conservative (for every one).

This resembles stock Slurm: no job may start that would delay a reservation, by the time limits of running jobs. Jobs
end at their true ends, and every decision plans anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled
from ...policies.placement import place
from ..engine.heaps import pop, push
from .allocations import NONE, Allocations, PoolNodes, give_back, grant, note
from .context import PoolContext, PoolResult, PoolTrace, count_idle, decision_due
from .queue import NEVER, arrive, come_in, next_arrival, someone_outside

EASY, CONSERVATIVE = 0, 1


class Queue(NamedTuple):
    """The waiting jobs in the order of their keys; ``many`` is an array of one."""

    rows: IntArray
    keys: FloatArray
    many: IntArray
    asking: IntArray  #: number of them by the GPUs they request


class Profile(NamedTuple):
    """Free GPUs from now on, as steps: ``free[i]`` from ``from_s[i]`` to the next; ``many`` is an array of one."""

    from_s: FloatArray
    free: IntArray
    many: IntArray


class Desk(NamedTuple):
    """All that a decision reads and writes."""

    trace: PoolTrace
    limit_s: FloatArray  #: planned duration of each job
    site: PoolNodes
    books: Allocations
    queue: Queue
    result: PoolResult
    depth: int  #: number of waiting jobs considered
    chosen: IntArray  #: jobs to start, filled from the front
    profile: Profile


@compiled
def desk_of(stage: PoolContext, limit_s: FloatArray, depth: int) -> Desk:
    """Return a desk with an empty queue."""
    count, total = len(limit_s), stage.books.unused[0]
    steps = total + 2 * depth + 4
    queue = Queue(np.empty(count, np.int64), np.empty(count), np.zeros(1, np.int64), np.zeros(total + 1, np.int64))
    profile = Profile(np.empty(steps), np.empty(steps, np.int64), np.zeros(1, np.int64))
    chosen = np.empty(total + 1, np.int64)
    return Desk(stage.trace, limit_s, stage.site, stage.books, queue, stage.result, depth, chosen, profile)


@compiled
def run_reserving(stage: PoolContext, limit_s: FloatArray, key: FloatArray, how: int, depth: int) -> None:
    """Replay jobs that run until they end, started in the order of their keys or backfilled behind reservations.

    *limit_s* is the planned duration of jobs, *how* EASY or CONSERVATIVE, *depth* how many waiting jobs are considered.
    """
    trace, site, books, gate, beat_s, result, log = stage
    ends, rows, running = np.empty(len(key)), np.empty(len(key), np.int64), 0
    desk = desk_of(stage, limit_s, depth)
    queue = desk.queue
    last_s, decide_s = 0.0, NEVER
    while True:
        now_s = min(decide_s, next_arrival(gate, trace.submit_s))
        if running and ends[0] < now_s:
            now_s = ends[0]
        if now_s == NEVER:
            break
        free = books.unused[0]
        if free and (queue.many[0] or someone_outside(gate)):
            count_idle(result.idle, free * (now_s - last_s), bool(queue.asking[: free + 1].any()))
        last_s = now_s
        while running and ends[0] <= now_s:
            row = rows[0]
            result.end_s[row] = ends[0]
            gate.requested_gpus[0] -= trace.gpus[row]
            if len(log.row):
                note(log, books, row, result.start_s[row], ends[0])
            give_back(site, books, row)
            running = pop(ends, rows, 0, running)
        arrive(gate, trace.submit_s, now_s)
        row = come_in(gate, trace.gpus)
        while row >= 0:
            _enter(queue, row, key[row], trace.gpus[row])
            row = come_in(gate, trace.gpus)
        if not queue.many[0]:
            continue
        decide_s = decision_due(decide_s, now_s, beat_s)
        if now_s < decide_s:
            continue
        new = choose(desk, how, rows[:running], now_s)
        for at in range(new):
            row = desk.chosen[at]
            result.start_s[row] = now_s
            queue.asking[trace.gpus[row]] -= 1
            running = push(ends, rows, 0, running, now_s + trace.runtime_s[row], row)
        if new:
            _forget_started(queue, result)
        decide_s = now_s + beat_s if beat_s > 0 and queue.many[0] else NEVER


@compiled
def choose(desk: Desk, how: int, running: IntArray, now_s: float) -> int:
    """Start jobs of the sorted queue that may start beside those *running*; return their number."""
    return _easy(desk, running, now_s) if how == EASY else _conservative(desk, running, now_s)


@compiled
def _enter(queue: Queue, row: int, key: float, gpus: int) -> None:
    spot = queue.many[0]
    while spot > 0 and queue.keys[spot - 1] > key:
        queue.rows[spot], queue.keys[spot] = queue.rows[spot - 1], queue.keys[spot - 1]
        spot -= 1
    queue.rows[spot], queue.keys[spot] = row, key
    queue.many[0] += 1
    queue.asking[gpus] += 1


@compiled
def _forget_started(queue: Queue, result: PoolResult) -> None:
    remaining = 0
    for at in range(queue.many[0]):
        if np.isnan(result.start_s[queue.rows[at]]):
            queue.rows[remaining], queue.keys[remaining] = queue.rows[at], queue.keys[at]
            remaining += 1
    queue.many[0] = remaining


@compiled
def _by_limit(limit_s: FloatArray, rows: IntArray, now_s: float, result: PoolResult) -> tuple[IntArray, FloatArray]:
    """Return the running jobs by their latest end, and that time; one past its limit could end any moment."""
    until_s = np.empty(len(rows))
    for at in range(len(rows)):
        until_s[at] = max(now_s, result.start_s[rows[at]] + limit_s[rows[at]])
    order = np.argsort(until_s, kind="mergesort")
    return rows[order], until_s[order]


@compiled
def _easy(desk: Desk, running: IntArray, now_s: float) -> int:
    """Start jobs from the front while they fit; behind the first that does not, those that cannot delay it."""
    trace, limit_s, site, books, queue, result, depth, chosen, _ = desk
    most = min(queue.many[0], depth)
    new, front = 0, 0
    while front < queue.many[0]:
        placed = grant(site, books, queue.rows[front], trace.gpus[queue.rows[front]])
        if not placed:
            break
        result.nodes[queue.rows[front]] = placed
        chosen[new] = queue.rows[front]
        new += 1
        front += 1
    if front >= most - 1 or books.unused[0] == 0:
        return new
    now_running = np.concatenate((running, chosen[:new]))
    for at in range(new):
        result.start_s[chosen[at]] = now_s
    head = queue.rows[front]
    later = site.free.copy()
    shadow_s = _shadow(desk, later, now_running, head, now_s)
    for at in range(front + 1, most):
        row = queue.rows[at]
        if trace.gpus[row] > books.unused[0]:
            continue
        count = place(site.how[row], site.free, site.size, trace.gpus[row], books.room[0], books.room[1])
        if not count:
            continue
        if now_s + limit_s[row] > shadow_s:
            clear = True
            for spot in range(count):
                clear = clear and books.room[1, spot] <= later[books.room[0, spot]]
            if not clear:
                continue
            for spot in range(count):
                later[books.room[0, spot]] -= books.room[1, spot]
        result.nodes[row] = grant(site, books, row, trace.gpus[row])
        chosen[new] = row
        new += 1
    return new


@compiled
def _shadow(desk: Desk, later: IntArray, rows: IntArray, head: int, now_s: float) -> float:
    """Return the time at which *head* can start by time limits; *later* becomes what is free then beside it."""
    trace, limit_s, site, books, _, result, _, _, _ = desk
    by_end, until_s = _by_limit(limit_s, rows, now_s, result)
    at = 0
    while at < len(rows):
        shadow_s = until_s[at]
        while at < len(rows) and until_s[at] <= shadow_s:
            pair = books.first[by_end[at]]
            while pair != NONE:
                later[books.pairs[0, pair]] += books.pairs[1, pair]
                pair = books.pairs[2, pair]
            at += 1
        count = place(site.how[head], later, site.size, trace.gpus[head], books.room[0], books.room[1])
        if count:
            for spot in range(count):
                later[books.room[0, spot]] -= books.room[1, spot]
            return float(shadow_s)
    return NEVER


@compiled
def _conservative(desk: Desk, running: IntArray, now_s: float) -> int:
    """Give each waiting job, in order, the earliest time that delays none before it; start those whose time is now.

    Reservations count GPUs over the cluster; the fit on nodes is checked at the start.
    """
    trace, limit_s, site, books, queue, result, depth, chosen, profile = desk
    by_end, until_s = _by_limit(limit_s, running, now_s, result)
    profile.from_s[0], profile.free[0], profile.many[0] = now_s, books.unused[0], 1
    for at in range(len(running)):
        last = profile.many[0] - 1
        free = profile.free[last] + trace.gpus[by_end[at]]
        if until_s[at] > profile.from_s[last]:
            last += 1
            profile.many[0] += 1
            profile.from_s[last] = until_s[at]
        profile.free[last] = free
    new = 0
    for at in range(min(queue.many[0], depth)):
        row = queue.rows[at]
        step = _earliest(profile, trace.gpus[row], limit_s[row])
        if step < 0:
            continue
        if step == 0:
            placed = grant(site, books, row, trace.gpus[row])
            if placed:
                result.nodes[row] = placed
                chosen[new] = row
                new += 1
        _reserve(profile, step, trace.gpus[row], limit_s[row])
    return new


@compiled
def _earliest(profile: Profile, gpus: int, limit_s: float) -> int:
    """Return the first step from which *gpus* are free for *limit_s*; -1 where there is none."""
    first = -1
    for at in range(profile.many[0]):
        if profile.free[at] < gpus:
            first = -1
        elif first < 0:
            first = at
        if first >= 0 and (at + 1 == profile.many[0] or profile.from_s[at + 1] >= profile.from_s[first] + limit_s):
            return first
    return -1


@compiled
def _reserve(profile: Profile, first: int, gpus: int, limit_s: float) -> None:
    """Reserve *gpus* from step *first* on for *limit_s*."""
    end_s = profile.from_s[first] + limit_s
    at = first
    while at < profile.many[0] and profile.from_s[at] < end_s:
        at += 1
    if end_s < NEVER and (at == profile.many[0] or profile.from_s[at] > end_s):
        for spot in range(profile.many[0], at, -1):
            profile.from_s[spot], profile.free[spot] = profile.from_s[spot - 1], profile.free[spot - 1]
        profile.from_s[at], profile.free[at] = end_s, profile.free[at - 1]
        profile.many[0] += 1
    for spot in range(first, at):
        profile.free[spot] -= gpus
