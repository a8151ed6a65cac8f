"""Binary heaps in arrays, for loops that compile: (key, row) pairs, the smallest key first, ties by row."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import entry


@entry
def push(keys: FloatArray, rows: IntArray, base: int, length: int, key: float, row: int) -> int:
    """Add a pair to the heap of *length* pairs that begins at *base*; return the new length."""
    at = length
    while at > 0:
        above = (at - 1) >> 1
        if keys[base + above] < key or (keys[base + above] == key and rows[base + above] < row):
            break
        keys[base + at] = keys[base + above]
        rows[base + at] = rows[base + above]
        at = above
    keys[base + at] = key
    rows[base + at] = row
    return length + 1


@entry
def pop(keys: FloatArray, rows: IntArray, base: int, length: int) -> int:
    """Remove the smallest pair, which is at *base* before the call; return the new length."""
    length -= 1
    key, row = keys[base + length], rows[base + length]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= length:
            break
        if below + 1 < length and (
            keys[base + below + 1] < keys[base + below]
            or (keys[base + below + 1] == keys[base + below] and rows[base + below + 1] < rows[base + below])
        ):
            below += 1
        if key < keys[base + below] or (key == keys[base + below] and row < rows[base + below]):
            break
        keys[base + at] = keys[base + below]
        rows[base + at] = rows[base + below]
        at = below
    keys[base + at] = key
    rows[base + at] = row
    return length


def validate(keys: FloatArray, rows: IntArray, base: int, length: int) -> None:
    """Raise AssertionError where a pair of the heap of *length* pairs at *base* comes before the one above it."""
    assert 0 <= length <= len(keys) - base, "a heap is longer than its room"
    key, row = keys[base : base + length], rows[base : base + length]
    assert not np.isnan(key).any(), "a heap has a key that is no number"
    above = (np.arange(1, length) - 1) >> 1
    in_order = (key[above] < key[1:]) | ((key[above] == key[1:]) & (row[above] <= row[1:]))
    assert in_order.all(), "a heap is out of order"
