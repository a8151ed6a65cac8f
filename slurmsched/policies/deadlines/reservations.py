"""Room for jobs that run to their end once started: GPUs over time, and plans that start every job as late as is safe.

A row of room is a set of nodes seen in blocks of some size. Jobs fit where in every row they count in there are GPUs
enough (see ``deadlines/gpu_blocks.py`` for when that is exact).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray

WINDOW = 32
"""So many stretches are searched first for a latest start, then four times as many."""

ROUNDS = 5
"""How often jobs that found no place are moved to the front and the plan is made again."""


class Room:
    """Free GPUs by row and stretch of time; the last stretch never ends. ``take`` changes it, so copy before."""

    def __init__(self, begins_s: FloatArray, free: IntArray) -> None:
        self.begins_s = begins_s  #: where stretches begin, rising; the first one is now
        self.free = free  #: row x stretch

    def copy(self) -> Self:
        """One that can be taken from without changing this one."""
        return type(self)(self.begins_s.copy(), self.free.copy())

    def less(self, share: float) -> Self:
        """The same with a *share* of what each row has at most left out."""
        kept_back = np.floor(share * self.free.max(axis=1, initial=0)).astype(np.int64)
        return type(self)(self.begins_s.copy(), self.free - kept_back[:, None])

    def latest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float, due_s: float) -> float:
        """The latest start from *since_s* on by which *gpus* of *rows* are free until the end, by *due_s*; else NaN."""
        last = int(np.searchsorted(self.begins_s, due_s)) if np.isfinite(due_s) else len(self.begins_s)
        first, wide = last, WINDOW
        while first > 0:  # the latest stretches first: what fits there starts later than what fits before
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
        """The earliest start from *since_s* on with *gpus* of *rows* free for *needs_s*; NaN where there is none."""
        from_s, until_s = self._stretches(rows, gpus)
        starts_s = np.maximum(from_s, since_s)
        fitting = starts_s + needs_s <= until_s
        return float(np.min(starts_s[fitting])) if fitting.any() else np.nan

    def at(self, at_s: float) -> IntArray:
        """Free GPUs of each row at a moment."""
        return self.free[:, max(0, int(np.searchsorted(self.begins_s, at_s, side="right")) - 1)]

    def short(self, gpus: IntArray, from_s: float, until_s: float) -> BoolArray:
        """Rows that lack their number of *gpus* at some time in between."""
        first = max(0, int(np.searchsorted(self.begins_s, from_s, side="right")) - 1)
        last = int(np.searchsorted(self.begins_s, until_s))
        return np.asarray((gpus > 0) & (self.free[:, first:last] < gpus[:, None]).any(axis=1))

    def lose(self, gpus: IntArray, from_s: float, until_s: float) -> None:
        """Take from each row its number of *gpus* for a while."""
        first, last = self._cut(from_s), self._cut(until_s)
        self.free[:, first:last] -= gpus[:, None]

    def take(self, rows: BoolArray, gpus: int, from_s: float, until_s: float) -> None:
        """Give *gpus* of *rows* away for a while."""
        first, last = self._cut(from_s), self._cut(until_s)
        self.free[np.flatnonzero(rows), first:last] -= gpus

    def _stretches(
        self, rows: BoolArray, gpus: int, first: int = 0, last: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """From and until when *gpus* of all *rows* are free in some of the stretches; never where there is no row."""
        last = len(self.begins_s) if last is None else last
        enough = np.zeros(last - first + 2, dtype=np.bool_)
        enough[1:-1] = (self.free[rows, first:last] >= gpus).all(axis=0) & rows.any()
        begins, ends = np.flatnonzero(enough[1:] & ~enough[:-1]), np.flatnonzero(enough[:-1] & ~enough[1:])
        ends = first + ends
        until_s = np.where(ends < len(self.begins_s), self.begins_s[np.minimum(ends, len(self.begins_s) - 1)], np.inf)
        return self.begins_s[first + begins], until_s

    def _cut(self, at_s: float) -> int:
        """The stretch that begins at *at_s*, made where there is none; the first one for the past."""
        if not np.isfinite(at_s):
            return len(self.begins_s)
        place = int(np.searchsorted(self.begins_s, at_s))
        if (place < len(self.begins_s) and self.begins_s[place] == at_s) or place == 0:
            return place
        # numpy's insert takes ten times as long, and plans are made of this.
        self.begins_s = np.concatenate((self.begins_s[:place], (at_s,), self.begins_s[place:]))
        self.free = np.concatenate((self.free[:, :place], self.free[:, place - 1 :]), axis=1)
        return place


@dataclass(frozen=True, eq=False)
class DeadlineRequests:
    """Jobs that want to end by a moment, as columns."""

    gpus: IntArray
    needs_s: FloatArray
    since_s: FloatArray  #: they cannot start sooner
    due_s: FloatArray
    rows: BoolArray  #: job x row of room: where each counts

    def __len__(self) -> int:
        return len(self.gpus)

    def plus(self, other: DeadlineRequests) -> DeadlineRequests:
        """These, then *other*."""
        return together([self, other])

    def take(self, rows: IntArray | BoolArray) -> DeadlineRequests:
        """Some of them."""
        return DeadlineRequests(*(getattr(self, name)[rows] for name in self.__annotations__))


def together(some: Sequence[DeadlineRequests]) -> DeadlineRequests:
    """All of *some*, one after the other; at least one."""
    return DeadlineRequests(
        *(np.concatenate([getattr(requests, name) for requests in some]) for name in DeadlineRequests.__annotations__)
    )


def latest_plan(room: Room, requests: DeadlineRequests) -> tuple[FloatArray, Room]:
    """The latest start of each job such that all end in time, NaN where no place was found; and the room left then."""
    order = np.lexsort((requests.needs_s, -requests.due_s))
    starts_s, left = _placed(room, requests, order)
    for _ in range(ROUNDS):
        lost = np.isnan(starts_s)
        if not lost.any():
            break
        order = np.concatenate([order[lost[order]], order[~lost[order]]])
        again_s, left_again = _placed(room, requests, order)
        if np.isnan(again_s).sum() >= lost.sum():
            break  # the same would be moved to the front again
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
