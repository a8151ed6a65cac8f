"""Waiting jobs, for loops that compile: in submit order before admission, then in one heap per kind.

Whether a job fits depends only on its kind: its placement and its GPU count. After one job of a kind did not fit, the
search skips that kind, and kinds with the same placement that ask for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import borrowing
from ..engine import heaps
from ..engine.heaps import pop, push

NEVER = np.inf


class Gate(NamedTuple):
    """Admission control (Blox's ``load``): a bound on the GPUs of admitted jobs; others wait outside in submit order.

    A job above the bound by itself is admitted when no other is. Scalars that change are arrays of one.
    """

    most: float
    requested_gpus: IntArray  #: GPUs that admitted jobs request; a job that ends subtracts its own
    arrived: IntArray  #: number of rows that have arrived
    inside: IntArray  #: number of rows that were admitted


def gate(most: float) -> Gate:
    """Return a gate before any arrival."""
    return Gate(most, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


@borrowing
def next_arrival(gate: Gate, submit_s: FloatArray) -> float:
    """Return the time of the next arrival; NEVER after the last."""
    return submit_s[gate.arrived[0]] if gate.arrived[0] < len(submit_s) else NEVER


@borrowing
def arrive(gate: Gate, submit_s: FloatArray, now_s: float) -> None:
    """Count the jobs that have arrived by now."""
    while gate.arrived[0] < len(submit_s) and submit_s[gate.arrived[0]] <= now_s:
        gate.arrived[0] += 1


@borrowing
def come_in(gate: Gate, gpus: IntArray) -> int:
    """Admit the first job outside; return its row, or -1 where none may come in."""
    row = gate.inside[0]
    if row == gate.arrived[0] or (gate.requested_gpus[0] and gate.requested_gpus[0] + gpus[row] > gate.most):
        return -1
    gate.inside[0] += 1
    gate.requested_gpus[0] += gpus[row]
    return int(row)


@borrowing
def someone_outside(gate: Gate) -> bool:
    """Return True if any job waits outside."""
    return bool(gate.inside[0] < gate.arrived[0])


class PoolQueue(NamedTuple):
    """Heaps of (key, row), one after the other; kinds are numbered by GPU count, then by placement."""

    kind: IntArray  #: the number of each job's kind
    how: IntArray  #: of each kind
    base: IntArray  #: begin of each heap
    length: IntArray
    barred: BoolArray  #: kinds that the present decision skips
    keys: FloatArray
    rows: IntArray


def nobody(gpus: IntArray, how: IntArray) -> PoolQueue:
    """Return empty heaps with room for all of these jobs."""
    ways = int(how.max(initial=0)) + 1
    each = gpus * ways + how
    count = np.bincount(each)
    kinds = np.flatnonzero(count)
    number = np.zeros(len(count), np.int64)
    number[kinds] = np.arange(len(kinds))
    base = np.cumsum(count[kinds]) - count[kinds]
    length, barred = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.bool_)
    return PoolQueue(
        number[each], kinds % ways, base, length, barred, np.empty(len(gpus)), np.empty(len(gpus), np.int64)
    )


@borrowing
def wait(waiting: PoolQueue, row: int, key: float) -> None:
    """Queue job *row* with this key."""
    kind = waiting.kind[row]
    waiting.length[kind] = push(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind], key, row)


@borrowing
def leave(waiting: PoolQueue, kind: int) -> None:
    """Remove the first job of *kind*."""
    waiting.length[kind] = pop(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind])


@borrowing
def first_of(waiting: PoolQueue) -> int:
    """Return the kind, among those not barred, whose first job has the smallest key; -1 where none waits."""
    best, best_key, best_row = -1, np.inf, -1
    for kind in range(len(waiting.base)):
        if waiting.length[kind] and not waiting.barred[kind]:
            key, row = waiting.keys[waiting.base[kind]], waiting.rows[waiting.base[kind]]
            if best < 0 or key < best_key or (key == best_key and row < best_row):
                best, best_key, best_row = kind, key, row
    return best


@borrowing
def bar(waiting: PoolQueue, kind: int) -> None:
    """Skip *kind*, for which there is no room, and kinds of the same placement that ask for more."""
    for other in range(kind, len(waiting.base)):
        if waiting.how[other] == waiting.how[kind]:
            waiting.barred[other] = True


@borrowing
def any_fits(waiting: PoolQueue, gpus: IntArray, free: int) -> bool:
    """Return True if some waiting job asks for no more than *free* GPUs."""
    for kind in range(len(waiting.base)):
        if waiting.length[kind]:
            return bool(gpus[waiting.rows[waiting.base[kind]]] <= free)
    return False


def validate(waiting: PoolQueue) -> None:
    """Raise AssertionError where a kind's heap is out of order, too long, or has a job twice or of another kind."""
    ends = np.append(waiting.base[1:], len(waiting.rows))
    for kind, (base, end, length) in enumerate(zip(waiting.base, ends, waiting.length, strict=True)):
        heaps.validate(waiting.keys[:end], waiting.rows, base, length)
        rows = waiting.rows[base : base + length]
        assert (waiting.kind[rows] == kind).all(), "a job waits among those of another kind"
        assert len(np.unique(rows)) == len(rows), "a job waits twice"
