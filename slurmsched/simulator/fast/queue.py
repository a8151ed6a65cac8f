"""Waiting jobs, for loops that compile: in a line outside the gate of admission, inside in one heap per kind.

Whether a job fits depends on its kind alone: how it is placed, and its GPU count. After one job of a kind did not fit,
no other of that kind is looked at, nor one placed the same way that asks for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import compiled
from ..engine.heaps import pop, push

NEVER = np.inf


class Gate(NamedTuple):
    """Admission (Blox's ``load``): those inside ask for so many GPUs at most, others wait outside by arrival.

    A job that asks for more on its own comes in when nobody is inside. Scalars that change are arrays of one.
    """

    most: float
    requested_gpus: IntArray  #: GPUs that jobs inside ask for; one that ends takes its own off
    arrived: IntArray  #: the rows before this one have arrived
    inside: IntArray  #: the rows before this one have come in


def gate(most: float) -> Gate:
    """Nobody has come yet."""
    return Gate(most, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


@compiled
def next_arrival(gate: Gate, submit_s: FloatArray) -> float:
    """When the next job arrives; NEVER after the last."""
    return submit_s[gate.arrived[0]] if gate.arrived[0] < len(submit_s) else NEVER


@compiled
def arrive(gate: Gate, submit_s: FloatArray, now_s: float) -> None:
    """Put everybody in line who has arrived by now."""
    while gate.arrived[0] < len(submit_s) and submit_s[gate.arrived[0]] <= now_s:
        gate.arrived[0] += 1


@compiled
def come_in(gate: Gate, gpus: IntArray) -> int:
    """Let the first in line in; its row, or -1 where nobody may come in."""
    row = gate.inside[0]
    if row == gate.arrived[0] or (gate.requested_gpus[0] and gate.requested_gpus[0] + gpus[row] > gate.most):
        return -1
    gate.inside[0] += 1
    gate.requested_gpus[0] += gpus[row]
    return int(row)


@compiled
def someone_outside(gate: Gate) -> bool:
    """Whether anybody waits outside."""
    return bool(gate.inside[0] < gate.arrived[0])


class PoolQueue(NamedTuple):
    """Heaps of (key, row), one after the other; kinds are numbered by GPU count, then by how they are placed."""

    kind: IntArray  #: the number of each job's kind
    how: IntArray  #: of each kind
    base: IntArray  #: where each heap begins
    length: IntArray
    barred: BoolArray  #: kinds that are not looked at any more in the decision under way
    keys: FloatArray
    rows: IntArray


def nobody(gpus: IntArray, how: IntArray) -> PoolQueue:
    """Empty heaps with room for all of these jobs."""
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


@compiled
def wait(waiting: PoolQueue, row: int, key: float) -> None:
    """Let job *row* wait with this key."""
    kind = waiting.kind[row]
    waiting.length[kind] = push(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind], key, row)


@compiled
def leave(waiting: PoolQueue, kind: int) -> None:
    """Take the first job of *kind* out."""
    waiting.length[kind] = pop(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind])


@compiled
def first_of(waiting: PoolQueue) -> int:
    """The kind, among those not barred, whose first job has the smallest key; -1 where none waits."""
    best, best_key, best_row = -1, np.inf, -1
    for kind in range(len(waiting.base)):
        if waiting.length[kind] and not waiting.barred[kind]:
            key, row = waiting.keys[waiting.base[kind]], waiting.rows[waiting.base[kind]]
            if best < 0 or key < best_key or (key == best_key and row < best_row):
                best, best_key, best_row = kind, key, row
    return best


@compiled
def bar(waiting: PoolQueue, kind: int) -> None:
    """There is no room for a job of *kind*: look no more at it, nor at those that ask for more in the same way."""
    for other in range(kind, len(waiting.base)):
        if waiting.how[other] == waiting.how[kind]:
            waiting.barred[other] = True


@compiled
def any_fits(waiting: PoolQueue, gpus: IntArray, free: int) -> bool:
    """Whether some waiting job asks for no more than *free* GPUs."""
    for kind in range(len(waiting.base)):
        if waiting.length[kind]:
            return bool(gpus[waiting.rows[waiting.base[kind]]] <= free)
    return False
