"""The event loops: a whole trace replayed in compiled code, with keys from the policies' own functions.

At one instant ends come first, then arrivals, then admission, then decisions. Decisions are made at every event, or at
the multiples of ``beat_s`` where that is positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import borrowing, compiled
from ...policies.placement import place
from ..engine.heaps import pop, push
from .allocations import NONE, Allocations, PoolNodes, Segments, give_back, grant, note, take
from .context import PoolContext, PoolResult, PoolTrace, awaited_ended, count_idle, decision_due
from .queue import (
    NEVER,
    Gate,
    PoolQueue,
    any_fits,
    arrive,
    bar,
    come_in,
    first_of,
    leave,
    next_arrival,
    someone_outside,
    wait,
)


class Keys(NamedTuple):
    """The order of jobs: a job's key is ``at[level, row] + slope[row] * seconds run``; the smaller runs sooner.

    A job's level is the number of *steps* (GPU-seconds of attained service) that it has passed.
    """

    at: FloatArray
    slope: FloatArray
    steps: FloatArray


@compiled
def run_to_end(stage: PoolContext, key: FloatArray, waiting: PoolQueue, strict: bool) -> None:
    """Replay jobs that run until they end.

    With *strict*, no job passes one that does not fit; otherwise whatever fits starts, best key first.
    """
    trace, site, books, gate, beat_s, result, log, awaited = stage
    ends, rows, running = np.empty(len(key)), np.empty(len(key), np.int64), 0
    queued, last_s, decide_s = 0, 0.0, NEVER
    while True:
        now_s = min(decide_s, next_arrival(gate, trace.submit_s))
        if running and ends[0] < now_s:
            now_s = ends[0]
        if now_s == NEVER or awaited_ended(awaited, result.end_s):
            break
        free = books.unused[0]
        if free and (queued or someone_outside(gate)):
            count_idle(result.idle, free * (now_s - last_s), queued > 0 and any_fits(waiting, trace.gpus, free))
        last_s = now_s
        while running and ends[0] <= now_s:
            row = rows[0]
            result.end_s[row] = ends[0]
            gate.requested_gpus[0] -= trace.gpus[row]
            if len(log.row):
                note(log, books, row, result.start_s[row], ends[0])
            give_back(site, books, row)
            running = pop(ends, rows, 0, running)
        queued += _let_in(trace, gate, waiting, key, now_s)
        if not queued:
            continue
        decide_s = decision_due(decide_s, now_s, beat_s)
        if now_s < decide_s:
            continue
        waiting.barred[:] = False
        while True:
            best = first_of(waiting)
            if best < 0:
                break
            row = waiting.rows[waiting.base[best]]
            placed = grant(site, books, row, trace.gpus[row])
            if placed:
                leave(waiting, best)
                queued -= 1
                result.start_s[row], result.nodes[row] = now_s, placed
                running = push(ends, rows, 0, running, now_s + trace.runtime_s[row], row)
            elif strict:
                break
            else:
                bar(waiting, best)
        decide_s = now_s + beat_s if beat_s > 0 and queued else NEVER


@borrowing
def _let_in(trace: PoolTrace, gate: Gate, waiting: PoolQueue, key: FloatArray, now_s: float) -> int:
    """Queue jobs that have arrived and admit those that may come in; return the number of admitted jobs."""
    came = 0
    arrive(gate, trace.submit_s, now_s)
    row = come_in(gate, trace.gpus)
    while row >= 0:
        wait(waiting, row, key[row])
        came += 1
        row = come_in(gate, trace.gpus)
    return came


class RunningJobs(NamedTuple):
    """The running jobs, and the progress of all jobs; scalars are arrays of one."""

    rows: IntArray  #: the running jobs, in the order of their keys at the last decision
    keys: FloatArray  #: of ``rows``, at the present decision
    stays: BoolArray  #: of ``rows``
    many: IntArray  #: number of running jobs
    fresh: IntArray  #: chosen to start
    ran_s: FloatArray  #: per job, before the present run
    left_s: FloatArray  #: per job, when the present run began
    since_s: FloatArray  #: per job, when that was
    level: IntArray  #: per job, steps passed
    due_s: FloatArray  #: per job, its next end or step; NEVER where it does not run
    heap_keys: FloatArray  #: heap of ``due_s``; an entry that differs from its job's due_s is void
    heap_rows: IntArray
    heap: IntArray


@compiled
def nothing_runs(trace: PoolTrace, total: int, steps: int) -> RunningJobs:
    """Return the state before the first start, on *total* GPUs, with orderings of up to *steps* steps."""
    count = len(trace.submit_s)
    return RunningJobs(
        np.empty(total + 1, np.int64),
        np.empty(total + 1),
        np.empty(total + 1, np.bool_),
        np.zeros(1, np.int64),
        np.empty(total + 1, np.int64),
        np.zeros(count),
        trace.runtime_s.copy(),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(count, NEVER),
        np.empty(64 + 4 * total * (steps + 1)),
        np.empty(64 + 4 * total * (steps + 1), np.int64),
        np.zeros(1, np.int64),
    )


class Progress(NamedTuple):
    """Times of a replay that can be interrupted; each is an array of one."""

    last_s: FloatArray  #: of the last event
    decide_s: FloatArray  #: of the next decision; NEVER while none is needed


def no_progress() -> Progress:
    """Return the progress before the first event."""
    return Progress(np.zeros(1), np.full(1, NEVER))


@compiled
def run_preemptively(stage: PoolContext, keys: Keys, waiting: PoolQueue) -> None:
    """Replay with preemption, by the rule of ``policies.selection.preemption``; events are arrivals, ends and steps."""
    running = nothing_runs(stage.trace, stage.books.unused[0], len(keys.steps))
    run_on(stage, keys, waiting, running, Progress(np.zeros(1), np.full(1, NEVER)), NEVER)


@compiled
def run_on(
    stage: PoolContext, keys: Keys, waiting: PoolQueue, running: RunningJobs, progress: Progress, until_s: float
) -> bool:
    """Continue a replay with preemption up to the events at *until_s*; return False once there are no more events."""
    trace, site, books, gate, beat_s, result, log, awaited = stage
    total, first_key, loose = len(running.rows) - 1, keys.at[0], np.empty_like(site.free)
    queued, last_s, decide_s = int(waiting.length.sum()), progress.last_s[0], progress.decide_s[0]
    more = True
    while True:
        now_s = min(decide_s, min(_next_due(running), next_arrival(gate, trace.submit_s)))
        if now_s == NEVER or awaited_ended(awaited, result.end_s):
            more = False
            break
        if now_s >= until_s:
            break
        free = books.unused[0]
        if free and (queued or someone_outside(gate)):
            count_idle(result.idle, free * (now_s - last_s), queued > 0 and any_fits(waiting, trace.gpus, free))
        last_s = now_s
        _end_and_step(trace, keys, site, books, gate, running, now_s, result, log)
        queued += _let_in(trace, gate, waiting, first_key, now_s)
        if not queued:
            decide_s = NEVER
            continue
        decide_s = decision_due(decide_s, now_s, beat_s)
        if now_s < decide_s:
            continue
        new = _choose(trace, keys, waiting, running, total, now_s)
        if new:
            queued += _run_chosen(stage, keys, waiting, running, loose, new, now_s)
        decide_s = now_s + beat_s if beat_s > 0 and queued else NEVER
    progress.last_s[0], progress.decide_s[0] = last_s, decide_s
    return more


@compiled
def admit_and_seat(
    stage: PoolContext, keys: Keys, waiting: PoolQueue, running: RunningJobs, inside: int, runs: BoolArray, now_s: float
) -> None:
    """Put the first *inside* jobs of an empty replay into it: those in *runs* on GPUs, the others in the queue.

    Their time run and their time left are those in *running*.
    """
    gate = stage.gate
    arrive(gate, stage.trace.submit_s, now_s)
    gate.inside[0] = inside
    for row in range(inside):
        gate.requested_gpus[0] += stage.trace.gpus[row]
        running.level[row] = _level(keys, running.ran_s[row] * stage.trace.gpus[row])
        if runs[row] and grant(stage.site, stage.books, row, stage.trace.gpus[row]):
            running.since_s[row] = now_s
            running.rows[running.many[0]] = row
            running.many[0] += 1
            _plan_due(stage.trace, keys, running, row)
        else:
            wait(waiting, row, keys.at[running.level[row], row] + keys.slope[row] * running.ran_s[row])


@compiled
def reorder(stage: PoolContext, keys: Keys, waiting: PoolQueue, running: RunningJobs, now_s: float) -> None:
    """Order running and waiting jobs by other *keys* from now on."""
    gpus = stage.trace.gpus
    for at in range(running.many[0]):
        row = running.rows[at]
        ran_s = now_s - running.since_s[row]
        running.ran_s[row] += ran_s
        running.left_s[row] -= ran_s
        running.since_s[row] = now_s
        running.level[row] = _level(keys, running.ran_s[row] * gpus[row])
        _plan_due(stage.trace, keys, running, row)
    for kind in range(len(waiting.base)):
        rows = waiting.rows[waiting.base[kind] : waiting.base[kind] + waiting.length[kind]].copy()
        waiting.length[kind] = 0
        for row in rows:
            running.level[row] = _level(keys, running.ran_s[row] * gpus[row])
            wait(waiting, row, keys.at[running.level[row], row] + keys.slope[row] * running.ran_s[row])


@borrowing
def _level(keys: Keys, service: float) -> int:
    """Return the number of steps that a job with this attained service, in GPU-seconds, has passed."""
    level = 0
    while level < len(keys.steps) and keys.steps[level] <= service:
        level += 1
    return level


@borrowing
def _next_due(running: RunningJobs) -> float:
    """Return the time at which the next running job ends or passes a step."""
    while running.heap[0] and running.due_s[running.heap_rows[0]] != running.heap_keys[0]:
        running.heap[0] = pop(running.heap_keys, running.heap_rows, 0, running.heap[0])
    return running.heap_keys[0] if running.heap[0] else NEVER


@borrowing
def _plan_due(trace: PoolTrace, keys: Keys, running: RunningJobs, row: int) -> None:
    """Schedule the end of a running job or its next step, whichever comes first."""
    due_s = running.since_s[row] + running.left_s[row]
    if running.level[row] < len(keys.steps):
        step_s = keys.steps[running.level[row]] / trace.gpus[row] - running.ran_s[row]
        due_s = min(due_s, running.since_s[row] + step_s)
    running.due_s[row] = due_s
    if running.heap[0] == len(running.heap_keys):
        _drop_void(running)
    running.heap[0] = push(running.heap_keys, running.heap_rows, 0, running.heap[0], due_s, row)


@borrowing
def _drop_void(running: RunningJobs) -> None:
    """Rebuild the heap from the running jobs."""
    running.heap[0] = 0
    for row in range(len(running.due_s)):
        if running.due_s[row] < NEVER:
            running.heap[0] = push(running.heap_keys, running.heap_rows, 0, running.heap[0], running.due_s[row], row)


@borrowing
def _end_and_step(
    trace: PoolTrace,
    keys: Keys,
    site: PoolNodes,
    books: Allocations,
    gate: Gate,
    running: RunningJobs,
    now_s: float,
    result: PoolResult,
    log: Segments,
) -> None:
    ended = False
    while _next_due(running) <= now_s:
        row = running.heap_rows[0]
        since_s = running.since_s[row]
        if since_s + running.left_s[row] <= now_s:
            result.end_s[row] = since_s + running.left_s[row]
            running.due_s[row] = NEVER
            gate.requested_gpus[0] -= trace.gpus[row]
            if len(log.row):
                note(log, books, row, since_s, result.end_s[row])
            give_back(site, books, row)
            ended = True
        else:
            running.level[row] += 1
            _plan_due(trace, keys, running, row)
    if ended:
        _drop_stopped(running)


@borrowing
def _choose(trace: PoolTrace, keys: Keys, waiting: PoolQueue, running: RunningJobs, total: int, now_s: float) -> int:
    """Choose running and waiting jobs in the order of their keys while GPUs are left; return the number to start."""
    _sort(keys, running, now_s)
    left, many, at, new = total, running.many[0], 0, 0
    waiting.barred[:] = False
    running.stays[:many] = False
    best = first_of(waiting)
    best_key = waiting.keys[waiting.base[best]] if best >= 0 else NEVER
    while left > 0:
        if at < many and running.keys[at] <= best_key:
            gpus = trace.gpus[running.rows[at]]
            if gpus <= left:
                running.stays[at] = True
                left -= gpus
            at += 1
            continue
        if best < 0:
            break
        row = waiting.rows[waiting.base[best]]
        if trace.gpus[row] <= left:
            left -= trace.gpus[row]
            leave(waiting, best)
            running.fresh[new] = row
            new += 1
        else:
            waiting.barred[best:] = True
        best = first_of(waiting)
        best_key = waiting.keys[waiting.base[best]] if best >= 0 else NEVER
    return new


@borrowing
def _sort(keys: Keys, running: RunningJobs, now_s: float) -> None:
    """Sort the running jobs by their keys; they are nearly sorted, so insertion is quick."""
    for at in range(running.many[0]):
        row = running.rows[at]
        ran_s = running.ran_s[row] + now_s - running.since_s[row]
        key = keys.at[running.level[row], row] + keys.slope[row] * ran_s
        spot = at
        while spot > 0 and (
            running.keys[spot - 1] > key or (running.keys[spot - 1] == key and running.rows[spot - 1] > row)
        ):
            running.rows[spot], running.keys[spot] = running.rows[spot - 1], running.keys[spot - 1]
            spot -= 1
        running.rows[spot], running.keys[spot] = row, key


@borrowing
def _run_chosen(
    stage: PoolContext,
    keys: Keys,
    waiting: PoolQueue,
    running: RunningJobs,
    loose: IntArray,
    new: int,
    now_s: float,
) -> int:
    """Start the *new* chosen jobs on free nodes, or on those of jobs that were not chosen and yield.

    Return how many jobs wait more than before. *loose* is scratch, one number per node.
    """
    trace, site, books, result = stage.trace, stage.site, stage.books, stage.result
    many, more, room = running.many[0], -new, stage.books.room
    for node in range(len(loose)):
        loose[node] = site.free[node]
    for at in range(many):
        if not running.stays[at]:
            _add(loose, books, running.rows[at])
    for at in range(new):
        row = running.fresh[at]
        key = keys.at[running.level[row], row] + keys.slope[row] * running.ran_s[row]
        count = place(site.how[row], site.free, site.size, trace.gpus[row], room[0], room[1])
        if not count:
            count = place(site.how[row], loose, site.size, trace.gpus[row], room[0], room[1])
            if count:
                stopped = _clear(stage, waiting, running, many, count, now_s)
                _drop_stopped(running)  # at once: the list has one place per GPU
                more += stopped
                many -= stopped
        take(site, books, row, trace.gpus[row], count)
        if not count:
            wait(waiting, row, key)
            more += 1
            continue
        for spot in range(count):
            loose[room[0, spot]] -= room[1, spot]
        running.since_s[row] = now_s
        if np.isnan(result.start_s[row]):
            result.start_s[row] = now_s
        result.nodes[row] = max(result.nodes[row], count)
        running.rows[running.many[0]] = row
        running.keys[running.many[0]] = key
        running.many[0] += 1
        _plan_due(trace, keys, running, row)
    return int(more)


@borrowing
def _clear(stage: PoolContext, waiting: PoolQueue, running: RunningJobs, many: int, count: int, now_s: float) -> int:
    """Preempt jobs that were not chosen, the worst of the first *many* running ones first, until there is room.

    Return the number of these jobs. The *count* nodes that need room are those found last.
    """
    stopped = 0
    for at in range(many - 1, -1, -1):
        row = running.rows[at]
        if not running.stays[at] and _helps(stage.site, stage.books, row, count):
            _preempt(stage, running, row, now_s)
            wait(waiting, row, running.keys[at])
            stopped += 1
    return stopped


@borrowing
def _helps(site: PoolNodes, books: Allocations, row: int, count: int) -> bool:
    """Return True if a job runs on one of the *count* nodes found that lacks GPUs yet."""
    pair, room = books.first[row], books.room
    while pair != NONE:
        for at in range(count):
            if room[0, at] == books.pairs[0, pair] and site.free[room[0, at]] < room[1, at]:
                return True
        pair = books.pairs[2, pair]
    return False


@borrowing
def _add(free: IntArray, books: Allocations, row: int) -> None:
    """Add the GPUs of a running job to *free*."""
    pair = books.first[row]
    while pair != NONE:
        free[books.pairs[0, pair]] += books.pairs[1, pair]
        pair = books.pairs[2, pair]


@borrowing
def _preempt(stage: PoolContext, running: RunningJobs, row: int, now_s: float) -> None:
    """Stop a running job; it keeps its work, and pays for its restart."""
    since_s = running.since_s[row]
    running.ran_s[row] += now_s - since_s
    running.left_s[row] += since_s - now_s + stage.trace.restart_s[row]
    running.due_s[row] = NEVER
    stage.result.stops[row] += 1
    if len(stage.log.row):
        note(stage.log, stage.books, row, since_s, now_s)
    give_back(stage.site, stage.books, row)


@borrowing
def _drop_stopped(running: RunningJobs) -> None:
    """Take the jobs that ended or were preempted from the list of running ones."""
    remaining = 0
    for at in range(running.many[0]):
        if running.due_s[running.rows[at]] < NEVER:
            running.rows[remaining], running.keys[remaining] = running.rows[at], running.keys[at]
            running.stays[remaining] = running.stays[at]
            remaining += 1
    running.many[0] = remaining
