"""The choice of blocks or switches for a job, in loops that compile: one rule for predictions and explanations."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ..compiled import borrowing, entry

BASE, LEVEL, LARGER, UNITS, SEGMENT, WHOLE = 0, 1, 2, 3, 4, 5
ROOM, LARGE, CHOSEN, SIZE, SUM = 0, 1, 2, 3, 4
NONE = -1

NO_UNITS = np.zeros((0, 0), dtype=np.int64)
NO_RULES = np.zeros((1, 6), dtype=np.int64)
"""Rules without any: the first line stands for none."""


def scratch_of(units: IntArray) -> IntArray:
    """Return the working lines of ``choose_units``, with a column for each unit of the largest level."""
    return np.zeros((5, int(units.max(initial=0)) + 1), dtype=np.int64)


@entry
def choose_units(units: IntArray, rule: IntArray, open_: IntArray, nodes: int, scratch: IntArray) -> int:
    """Choose units with room for so many *nodes*; return the nodes that they give, which may be too few.

    ``open_`` is above 0 for a node that may be taken, and the rule has the parts of ``UnitRule``. The chosen units
    have 1 in ``scratch[CHOSEN]``, and the nodes to take of each at most are in ``scratch[ROOM]``. Of larger units that
    hold the job, the one with the least room is chosen; without any the one with the most, which says what is missing.
    """
    _count_room(units, rule, open_, scratch)
    if rule[LARGER] > 1:
        _keep_largest(rule[LARGER], scratch)
        return _mark(0, True, rule[UNITS], nodes, scratch)
    best, found = NONE, 0
    for large in range(scratch.shape[1]):
        sum_ = _mark(large, False, rule[UNITS], nodes, scratch)
        if sum_ >= nodes > found or (sum_ > found and found < nodes) or (nodes <= sum_ < found):
            best, found = large, sum_
    return _mark(best, False, rule[UNITS], nodes, scratch) if best != NONE else 0


@borrowing
def _count_room(units: IntArray, rule: IntArray, open_: IntArray, scratch: IntArray) -> None:
    """Count the open nodes of each unit, in whole segments, and note the larger unit that it is in."""
    scratch[ROOM, :] = 0
    scratch[SIZE, :] = 0
    scratch[LARGE, :] = NONE
    for node in range(len(open_)):
        unit = units[rule[BASE], node]
        if unit == NONE:
            continue
        scratch[SIZE, unit] += 1
        scratch[LARGE, unit] = 0 if rule[LEVEL] == NONE else units[rule[LEVEL], node]
        if open_[node] > 0:
            scratch[ROOM, unit] += 1
    for unit in range(scratch.shape[1]):
        if rule[WHOLE] and scratch[ROOM, unit] < scratch[SIZE, unit]:
            scratch[ROOM, unit] = 0
        scratch[ROOM, unit] -= scratch[ROOM, unit] % rule[SEGMENT]


@borrowing
def _keep_largest(many: int, scratch: IntArray) -> None:
    """Leave room only in the so many larger units that have the most, and treat these as one."""
    scratch[SUM, :] = 0
    for unit in range(scratch.shape[1]):
        if scratch[LARGE, unit] != NONE:
            scratch[SUM, scratch[LARGE, unit]] += scratch[ROOM, unit]
    for _ in range(many):
        most = 0
        for large in range(scratch.shape[1]):
            if scratch[SUM, large] > scratch[SUM, most]:
                most = large
        scratch[SUM, most] = NONE
    for unit in range(scratch.shape[1]):
        if scratch[LARGE, unit] != NONE and scratch[SUM, scratch[LARGE, unit]] != NONE:
            scratch[ROOM, unit] = 0


@borrowing
def _mark(large: int, all_: bool, most: int, nodes: int, scratch: IntArray) -> int:
    """Choose the units with the most room of one larger unit, or of *all_*; return their nodes."""
    scratch[CHOSEN, :] = 0
    sum_, many = 0, 0
    while sum_ < nodes and (not most or many < most):
        best = NONE
        for unit in range(scratch.shape[1]):
            if scratch[CHOSEN, unit] or not scratch[ROOM, unit] or not (all_ or scratch[LARGE, unit] == large):
                continue
            if best == NONE or scratch[ROOM, unit] > scratch[ROOM, best]:
                best = unit
        if best == NONE:
            break
        scratch[CHOSEN, best] = 1
        sum_ += scratch[ROOM, best]
        many += 1
    return int(sum_)
