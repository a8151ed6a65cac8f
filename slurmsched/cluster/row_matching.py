"""The rows of a table as those of an earlier one: matched by key, and each column predicted from its earlier values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import BoolArray, IntArray

ORDERS = ("rank",)
"""Columns that number rows; where rows come and go, the others move up and keep their order."""

SUMS = {
    "priority": tuple(f"{part}_points" for part in ("site", "age", "fairshare", "size", "partition", "qos", "tres")),
    "points": ("site_points",),
}
"""Columns that grow with others: Slurm sums the points of its plugins, and adopts the points that we set."""


@dataclass(frozen=True)
class Matching:
    """For each row of a table, its row in an earlier one; -1 for a new row."""

    rows: IntArray

    @classmethod
    def of(cls, keys: IntArray, before: IntArray) -> Matching:
        """Match rows with the same key; a wrong match costs space but no correctness."""
        if not len(before):
            return cls(np.full(len(keys), -1, dtype=np.int64))
        order = np.argsort(before, kind="stable")
        at = order[np.minimum(np.searchsorted(before[order], keys), len(before) - 1)]
        return cls(np.where(before[at] == keys, at, -1))

    @classmethod
    def in_place(cls, length: int, before: int) -> Matching:
        """Match each row with the one at the same index, if there is one."""
        rows = np.arange(length, dtype=np.int64)
        return cls(np.where(rows < before, rows, -1))

    @cached_property
    def new(self) -> BoolArray:
        """A mask of the rows without an earlier one."""
        return np.asarray(self.rows < 0)

    def same_rows(self, before: NDArray[Any]) -> bool:
        """Return True if the rows are those of column *before*, in the same order."""
        return self._unmoved and len(self.rows) == len(before)

    @cached_property
    def _unmoved(self) -> bool:
        return bool((self.rows == np.arange(len(self.rows))).all())


def moved_rows(ranks: IntArray, before: IntArray, matching: Matching) -> BoolArray:
    """Return the smallest mask of rows that changed their order, or are numbered in only one of the two tables."""
    there = np.flatnonzero(~matching.new)
    earlier, now = before[matching.rows[there]], ranks[there]
    moved = np.zeros(len(ranks), dtype=np.bool_)
    moved[there[(earlier < 0) != (now < 0)]] = True
    both = (earlier >= 0) & (now >= 0)
    rows = there[both][np.argsort(earlier[both], kind="stable")]
    moved[rows] = True
    moved[rows[_longest_rising(ranks[rows])]] = False
    return moved


def _longest_rising(numbers: IntArray) -> IntArray:
    """Return the indices of a longest rising subsequence of *numbers*, by patience sorting."""
    tops: list[int] = []
    at: list[int] = []
    before = np.full(len(numbers), -1, dtype=np.int64)
    for place, number in enumerate(numbers.tolist()):
        pile = bisect_left(tops, number)
        tops[pile : pile + 1], at[pile : pile + 1] = [number], [place]
        before[place] = at[pile - 1] if pile else -1
    found: list[int] = []
    place = at[-1] if at else -1
    while place >= 0:
        found.append(place)
        place = int(before[place])
    return np.array(found[::-1], dtype=np.int64)


def predicted_column(
    name: str, before: NDArray[Any], matching: Matching, new: NDArray[Any], moved: BoolArray | None = None
) -> NDArray[Any]:
    """Predict a column from *before* if nothing else changed; new rows and *moved* ones are zero."""
    if not len(matching.rows):
        return new
    if moved is None and name not in ORDERS and matching.same_rows(before):
        return before
    there = ~matching.new if moved is None else ~(matching.new | moved)
    predicted = np.zeros(len(matching.rows), dtype=before.dtype)
    predicted[there] = before[matching.rows[there]]
    return _in_order(predicted, there, new) if name in ORDERS else predicted


def sums_last(names: Sequence[str]) -> list[str]:
    """Return *names* with columns that are sums of others after those others."""
    return sorted(names, key=lambda name: not set(names).isdisjoint(SUMS.get(name, ())))


def with_growth(
    predicted: NDArray[Any], name: str, columns: Mapping[str, Any], before: Mapping[str, Any], matching: Matching
) -> NDArray[Any]:
    """Return *predicted*, plus the growth of the columns that column *name* is the sum of."""
    parts = SUMS.get(name, ())
    if not parts or not len(matching.rows) or parts[0] not in columns:
        return predicted
    there, grown = ~matching.new, predicted.copy()
    for part in parts:
        grown[there] += columns[part][there] - before[part][matching.rows[there]]
    return grown


def _in_order(predicted: IntArray, there: BoolArray, new: IntArray) -> IntArray:
    """Renumber the rows that keep their order with the numbers that the new rows leave free."""
    numbered = np.flatnonzero(there & (predicted >= 0))
    taken = new[~there]
    free = np.setdiff1d(np.arange(len(numbered) + len(taken)), taken)[: len(numbered)]
    moved = predicted.copy()
    moved[numbered[np.argsort(predicted[numbered], kind="stable")]] = free
    return moved
