"""Reservations for jobs that run to their end: GPUs over time, and plans of latest starts.

A row of room is a set of nodes, in blocks of some size. A job fits if every row in which it counts has enough GPUs (see
``deadlines/gpu_blocks.py`` for when that is exact).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray

WINDOW = 32
"""Number of stretches searched first for a latest start; each further search covers four times as many."""

ROUNDS = 5
"""Number of times that jobs without a place are moved to the front and the plan is repeated."""


class Room:
    """Free GPUs by row and stretch of time; the last stretch never ends. ``take`` and ``lose`` change it in place."""

    def __init__(self, begins_s: FloatArray, free: IntArray) -> None:
        self.begins_s = begins_s  #: begins of stretches, rising; the first one is now
        self.free = free  #: row x stretch

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.begins_s.copy(), self.free.copy())

    def less(self, share: float) -> Self:
        """Return a copy in which each row lacks a *share* of its largest number of GPUs."""
        kept_back = np.floor(share * self.free.max(axis=1, initial=0)).astype(np.int64)
        return type(self)(self.begins_s.copy(), self.free - kept_back[:, None])

    def latest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float, due_s: float) -> float:
        """Return the latest start from *since_s* on with *gpus* of *rows* free for *needs_s* by *due_s*; else NaN."""
        last = int(np.searchsorted(self.begins_s, due_s)) if np.isfinite(due_s) else len(self.begins_s)
        first, wide = last, WINDOW
        while first > 0:  # the latest stretches first: starts there are later
            first, wide = max(0, last - wide), 4 * wide
            from_s, until_s = self._stretches(rows, gpus, first, last)
            starts_s = np.minimum(until_s, due_s) - needs_s
            fitting = starts_s >= np.maximum(from_s, since_s) - 1e-6
            if fitting.any():
                return float(np.max(starts_s[fitting]))
            if self.begins_s[first] <= since_s:
                break
        return np.nan

    def earliest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float) -> float:
        """Return the earliest start from *since_s* on with *gpus* of *rows* free for *needs_s*; else NaN."""
        from_s, until_s = self._stretches(rows, gpus)
        starts_s = np.maximum(from_s, since_s)
        fitting = starts_s + needs_s <= until_s
        return float(np.min(starts_s[fitting])) if fitting.any() else np.nan

    def at(self, at_s: float) -> IntArray:
        """Return the free GPUs of each row at a moment."""
        return self.free[:, max(0, int(np.searchsorted(self.begins_s, at_s, side="right")) - 1)]

    def short(self, gpus: IntArray, from_s: float, until_s: float) -> BoolArray:
        """Select rows that lack their number of *gpus* at some moment in the interval."""
        first = max(0, int(np.searchsorted(self.begins_s, from_s, side="right")) - 1)
        last = int(np.searchsorted(self.begins_s, until_s))
        return np.asarray((gpus > 0) & (self.free[:, first:last] < gpus[:, None]).any(axis=1))

    def lose(self, gpus: IntArray, from_s: float, until_s: float) -> None:
        """Subtract the number in *gpus* from each row during the interval."""
        first, last = self._cut(from_s), self._cut(until_s)
        self.free[:, first:last] -= gpus[:, None]

    def take(self, rows: BoolArray, gpus: int, from_s: float, until_s: float) -> None:
        """Subtract *gpus* from each of *rows* during the interval."""
        first, last = self._cut(from_s), self._cut(until_s)
        self.free[np.flatnonzero(rows), first:last] -= gpus

    def _stretches(
        self, rows: BoolArray, gpus: int, first: int = 0, last: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return begins and ends of times in some stretches with *gpus* free in all *rows*; none without rows."""
        last = len(self.begins_s) if last is None else last
        enough = np.zeros(last - first + 2, dtype=np.bool_)
        enough[1:-1] = (self.free[rows, first:last] >= gpus).all(axis=0) & rows.any()
        begins, ends = np.flatnonzero(enough[1:] & ~enough[:-1]), np.flatnonzero(enough[:-1] & ~enough[1:])
        ends = first + ends
        until_s = np.where(ends < len(self.begins_s), self.begins_s[np.minimum(ends, len(self.begins_s) - 1)], np.inf)
        return self.begins_s[first + begins], until_s

    def _cut(self, at_s: float) -> int:
        """Return the stretch that begins at *at_s*, splitting one if needed; the first one for the past."""
        if not np.isfinite(at_s):
            return len(self.begins_s)
        place = int(np.searchsorted(self.begins_s, at_s))
        if (place < len(self.begins_s) and self.begins_s[place] == at_s) or place == 0:
            return place
        # numpy's insert takes ten times as long, and plans spend their time here.
        self.begins_s = np.concatenate((self.begins_s[:place], (at_s,), self.begins_s[place:]))
        self.free = np.concatenate((self.free[:, :place], self.free[:, place - 1 :]), axis=1)
        return place


@dataclass(frozen=True, eq=False)
class DeadlineRequests:
    """Requests of jobs to end by a moment, as columns."""

    gpus: IntArray
    needs_s: FloatArray
    since_s: FloatArray  #: earliest start
    due_s: FloatArray
    rows: BoolArray  #: job x row of room: the rows in which each counts

    def __len__(self) -> int:
        return len(self.gpus)

    def plus(self, other: DeadlineRequests) -> DeadlineRequests:
        """Return these requests followed by *other*."""
        return together([self, other])

    def take(self, rows: IntArray | BoolArray) -> DeadlineRequests:
        """Return the requests in *rows*."""
        return DeadlineRequests(*(getattr(self, name)[rows] for name in self.__annotations__))


def together(some: Sequence[DeadlineRequests]) -> DeadlineRequests:
    """Concatenate *some*, which must not be empty."""
    return DeadlineRequests(
        *(np.concatenate([getattr(requests, name) for requests in some]) for name in DeadlineRequests.__annotations__)
    )


def latest_plan(room: Room, requests: DeadlineRequests) -> tuple[FloatArray, Room]:
    """Return the latest start of each job such that all end in time, NaN if it found no place; and the room left."""
    order = np.lexsort((requests.needs_s, -requests.due_s))
    starts_s, left = _placed(room, requests, order)
    for _ in range(ROUNDS):
        lost = np.isnan(starts_s)
        if not lost.any():
            break
        order = np.concatenate([order[lost[order]], order[~lost[order]]])
        again_s, left_again = _placed(room, requests, order)
        if np.isnan(again_s).sum() >= lost.sum():
            break  # no progress
        starts_s, left = again_s, left_again
    return starts_s, left


def _placed(room: Room, requests: DeadlineRequests, order: IntArray) -> tuple[FloatArray, Room]:
    left = room.copy()
    starts_s = np.full(len(requests), np.nan)
    for job in order.tolist():
        gpus, needs_s = int(requests.gpus[job]), float(requests.needs_s[job])
        starts_s[job] = left.latest(
            requests.rows[job], gpus, needs_s, float(requests.since_s[job]), float(requests.due_s[job])
        )
        if np.isfinite(starts_s[job]):
            left.take(requests.rows[job], gpus, float(starts_s[job]), float(starts_s[job]) + needs_s)
    return starts_s, left
