"""Sorted lists of rows in arrays, for loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..compiled import borrowing, entry

PART = 64  #: rows that a search compares at once


class Line(NamedTuple):
    """A sorted list of rows; ``many`` is an array of one."""

    rows: IntArray
    keys: FloatArray  #: of the rows, rising
    many: IntArray


def empty_line(room: int) -> Line:
    """Return an empty line with *room* for that many rows."""
    return Line(np.empty(room, dtype=np.int64), np.empty(room), np.zeros(1, dtype=np.int64))


@entry
def line_up(line: Line, row: int, key: float) -> None:
    """Insert a row in the order of keys, equal ones by row."""
    low, high = 0, line.many[0]
    while low < high:
        middle = (low + high) // 2
        if line.keys[middle] < key or (line.keys[middle] == key and line.rows[middle] < row):
            low = middle + 1
        else:
            high = middle
    for at in range(line.many[0], low, -1):
        line.rows[at], line.keys[at] = line.rows[at - 1], line.keys[at - 1]
    line.rows[low], line.keys[low] = row, key
    line.many[0] += 1


@borrowing
def _part_of(line: Line, row: int) -> int:
    """Return the begin of the part of a line that has a row, or the begin of its last, short part."""
    begin = 0
    while begin + PART <= line.many[0]:
        part, there = line.rows[begin : begin + PART], False
        for at in range(PART):  # without a way out: this loop becomes vector instructions
            there |= part[at] == row
        if there:
            break
        begin += PART
    return begin


@borrowing
def drop_out(line: Line, row: int) -> None:
    """Remove a row from the line, if it is there."""
    at, many = _part_of(line, row), line.many[0]
    while at < many and line.rows[at] != row:
        at += 1
    if at == many:
        return
    rows, keys = line.rows[at:many], line.keys[at:many]  # from 0 on: these loops become vector instructions
    for spot in range(len(rows) - 1):
        rows[spot] = rows[spot + 1]
    for spot in range(len(keys) - 1):
        keys[spot] = keys[spot + 1]
    line.many[0] -= 1


def validate(line: Line, turns: FloatArray | None = None) -> None:
    """Raise AssertionError where a line is out of order or has a row twice; equal keys go by *turns*, then by row."""
    rows, keys = line.rows[: line.many[0]], line.keys[: line.many[0]]
    turn = np.zeros(len(rows)) if turns is None else turns[rows]
    in_order = np.array_equal(np.lexsort((rows, turn, keys)), np.arange(len(rows)))
    assert in_order, "a line of jobs is out of order"
    assert len(np.unique(rows)) == len(rows), "a line has a job twice"
