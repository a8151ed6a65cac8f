"""The event loops: a whole trace replayed in compiled code, on keys that the policies' own functions gave.

At one instant ends come first, then arrivals, then decisions. Waiting jobs lie in one heap per GPU count: whether a job
fits depends on its GPU count alone, so that after one job of a count did not fit, no other of that count is looked at.
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..policies.compiled import compiled
from .grants import give_back, grant
from .heaps import pop, push

NEVER = np.inf


@compiled
def run_to_end(
    submit_s: FloatArray,
    runtime_s: FloatArray,
    gpus: IntArray,
    key: FloatArray,
    kind: IntArray,
    base: IntArray,
    strict: bool,
    how: int,
    size: int,
    free: IntArray,
    start_s: FloatArray,
    end_s: FloatArray,
    nodes: IntArray,
) -> None:
    """Jobs that run until they end. Rows are in submit order; *kind* numbers the GPU counts, smallest first.

    *base* says where each kind's heap begins. With *strict* nothing passes a job that does not fit; otherwise whatever
    fits starts, best key first. Fills *start_s*, *end_s* and *nodes* (how many a job was placed on).
    """
    count, kinds = len(submit_s), len(base)
    keys, rows = np.empty(count), np.empty(count, np.int64)
    length = np.zeros(kinds, np.int64)
    run_keys, run_rows, running = np.empty(count), np.empty(count, np.int64), 0
    first, pairs, room = _books(count, free)
    arrived = 0
    while arrived < count or running:
        now_s = run_keys[0] if running else NEVER
        if arrived < count and submit_s[arrived] < now_s:
            now_s = submit_s[arrived]
        while running and run_keys[0] <= now_s:
            give_back(free, run_rows[0], first, pairs)
            running = pop(run_keys, run_rows, 0, running)
        while arrived < count and submit_s[arrived] <= now_s:
            length[kind[arrived]] = push(keys, rows, base[kind[arrived]], length[kind[arrived]], key[arrived], arrived)
            arrived += 1
        open_kinds = kinds
        while True:
            best = _best(keys, rows, base, length, open_kinds)
            if best < 0:
                break
            row = rows[base[best]]
            placed = grant(how, free, size, gpus[row], row, first, pairs, room)
            if placed:
                length[best] = pop(keys, rows, base[best], length[best])
                start_s[row], end_s[row], nodes[row] = now_s, now_s + runtime_s[row], placed
                running = push(run_keys, run_rows, 0, running, end_s[row], row)
            elif strict:
                break
            else:
                open_kinds = best


@compiled
def run_preemptively(
    submit_s: FloatArray,
    runtime_s: FloatArray,
    gpus: IntArray,
    key: FloatArray,
    slope: FloatArray,
    steps: FloatArray,
    restart_s: FloatArray,
    kind: IntArray,
    base: IntArray,
    beat_s: float,
    how: int,
    size: int,
    free: IntArray,
    start_s: FloatArray,
    end_s: FloatArray,
    nodes: IntArray,
    stops: IntArray,
) -> None:
    """Jobs that yield: at each decision the best jobs run, whatever ran before, and whatever fits is filled in.

    A job's key is ``key[level, row] + slope[row] * seconds run``; its level is how many of *steps* (GPU-seconds) it has
    passed. A job that was stopped needs ``restart_s[row]`` more when it goes on. Decisions are made at every arrival,
    end and step, or every *beat_s* seconds where that is positive. *stops* counts the preemptions.
    """
    count, kinds = len(submit_s), len(base)
    total = free.sum()
    keys, rows = np.empty(count), np.empty(count, np.int64)
    length = np.zeros(kinds, np.int64)
    first, pairs, room = _books(count, free)
    ran_s, left_s, since_s = np.zeros(count), runtime_s.copy(), np.zeros(count)
    level = np.zeros(count, np.int64)
    held, held_key, running = np.empty(total + 1, np.int64), np.empty(total + 1), 0
    fresh = np.empty(total + 1, np.int64)
    stay = np.empty(total + 1, np.bool_)
    arrived, waiting, due_s = 0, 0, NEVER
    while arrived < count or running or waiting:
        now_s = due_s
        if arrived < count and submit_s[arrived] < now_s:
            now_s = submit_s[arrived]
        for at in range(running):
            row = held[at]
            now_s = min(now_s, since_s[row] + left_s[row], _step_at(row, ran_s, since_s, level, steps, gpus))
        # ends
        kept = 0
        for at in range(running):
            row = held[at]
            if since_s[row] + left_s[row] <= now_s:
                end_s[row] = since_s[row] + left_s[row]
                give_back(free, row, first, pairs)
            else:
                while _step_at(row, ran_s, since_s, level, steps, gpus) <= now_s:
                    level[row] += 1
                held[kept] = row
                kept += 1
        running = kept
        # arrivals
        while arrived < count and submit_s[arrived] <= now_s:
            length[kind[arrived]] = push(
                keys, rows, base[kind[arrived]], length[kind[arrived]], key[0, arrived], arrived
            )
            arrived += 1
            waiting += 1
        if beat_s > 0:
            if now_s < due_s:
                if due_s == NEVER:
                    due_s = np.ceil(now_s / beat_s) * beat_s
                if now_s < due_s:
                    continue
            due_s = now_s + beat_s if (waiting or running) else NEVER
        # decide: the running jobs in the order of their keys, merged with the best that wait
        for at in range(running):
            row = held[at]
            value = key[level[row], row] + slope[row] * (ran_s[row] + now_s - since_s[row])
            spot = at
            while spot > 0 and (held_key[spot - 1] > value or (held_key[spot - 1] == value and held[spot - 1] > row)):
                held[spot], held_key[spot] = held[spot - 1], held_key[spot - 1]
                spot -= 1
            held[spot], held_key[spot] = row, value
        room_left, open_kinds, at, new = total, kinds, 0, 0
        while room_left > 0:
            best = _best(keys, rows, base, length, open_kinds)
            if at < running and (best < 0 or held_key[at] <= keys[base[best]]):
                row = held[at]
                stay[at] = gpus[row] <= room_left
                if stay[at]:
                    room_left -= gpus[row]
                at += 1
            elif best >= 0:
                row = rows[base[best]]
                if gpus[row] <= room_left:
                    length[best] = pop(keys, rows, base[best], length[best])
                    room_left -= gpus[row]
                    fresh[new] = row
                    new += 1
                else:
                    open_kinds = best
            else:
                break
        # yield
        kept = 0
        for place_ in range(running):
            row = held[place_]
            if place_ < at and stay[place_]:
                held[kept] = row
                kept += 1
                continue
            ran_s[row] += now_s - since_s[row]
            left_s[row] += since_s[row] - now_s + restart_s[row]
            stops[row] += 1
            give_back(free, row, first, pairs)
            value = key[level[row], row] + slope[row] * ran_s[row]
            length[kind[row]] = push(keys, rows, base[kind[row]], length[kind[row]], value, row)
            waiting += 1
        running = kept
        # start; what node boundaries keep out waits on
        for place_ in range(new):
            row = fresh[place_]
            placed = grant(how, free, size, gpus[row], row, first, pairs, room)
            if placed:
                since_s[row] = now_s
                if np.isnan(start_s[row]):
                    start_s[row] = now_s
                nodes[row] = max(nodes[row], placed)
                held[running] = row
                running += 1
                waiting -= 1
            else:
                value = key[level[row], row] + slope[row] * ran_s[row]
                length[kind[row]] = push(keys, rows, base[kind[row]], length[kind[row]], value, row)


@compiled
def _books(count: int, free: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Empty books for ``grant``: at most one pair per GPU is ever in use."""
    total = free.sum()
    first = np.full(count + 1, -1, np.int64)
    pairs = np.empty((3, total), np.int64)
    pairs[2] = np.arange(1, total + 1)
    pairs[2, total - 1] = -1
    first[-1] = 0
    return first, pairs, np.empty((2, len(free)), np.int64)


@compiled
def _best(keys: FloatArray, rows: IntArray, base: IntArray, length: IntArray, open_kinds: int) -> int:
    """The kind whose head has the smallest key among those still open; -1 where none waits."""
    best = -1
    for kind in range(open_kinds):
        if length[kind] and (
            best < 0
            or keys[base[kind]] < keys[base[best]]
            or (keys[base[kind]] == keys[base[best]] and rows[base[kind]] < rows[base[best]])
        ):
            best = kind
    return best


@compiled
def _step_at(
    row: int, ran_s: FloatArray, since_s: FloatArray, level: IntArray, steps: FloatArray, gpus: IntArray
) -> float:
    """When a running job passes its next step of attained service."""
    if level[row] >= len(steps):
        return NEVER
    return float(since_s[row] + steps[level[row]] / gpus[row] - ran_s[row])
