"""Waiting jobs: one heap per GPU count, for loops that compile.

Whether a job fits depends on its GPU count alone, so that after one job of a count did not fit, no other of that count
or of a larger one is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..policies.compiled import compiled
from .heaps import pop, push


class Waiting(NamedTuple):
    """Heaps of (key, row), one after the other; GPU counts are numbered, the smallest first."""

    kind: IntArray  #: the number of each job's GPU count
    base: IntArray  #: where each heap begins
    length: IntArray
    keys: FloatArray
    rows: IntArray


def nobody(gpus: IntArray) -> Waiting:
    """Empty heaps with room for all of these jobs."""
    _, kind, count = np.unique(gpus, return_inverse=True, return_counts=True)
    base = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    return Waiting(
        kind.astype(np.int64), base, np.zeros(len(base), np.int64), np.empty(len(gpus)), np.empty(len(gpus), np.int64)
    )


@compiled
def wait(waiting: Waiting, row: int, key: float) -> None:
    """Let job *row* wait with this key."""
    kind = waiting.kind[row]
    waiting.length[kind] = push(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind], key, row)


@compiled
def leave(waiting: Waiting, kind: int) -> None:
    """Take the first job of *kind* out."""
    waiting.length[kind] = pop(waiting.keys, waiting.rows, waiting.base[kind], waiting.length[kind])


@compiled
def first_of(waiting: Waiting, kinds: int) -> int:
    """The kind, among the *kinds* smallest, whose first job has the smallest key; -1 where none waits."""
    best, best_key, best_row = -1, np.inf, -1
    for kind in range(kinds):
        if waiting.length[kind]:
            key, row = waiting.keys[waiting.base[kind]], waiting.rows[waiting.base[kind]]
            if best < 0 or key < best_key or (key == best_key and row < best_row):
                best, best_key, best_row = kind, key, row
    return best
