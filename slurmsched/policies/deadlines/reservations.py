"""Reservations for jobs that run to their end: GPUs over time, and plans of latest starts.

A row of room is a set of nodes, in blocks of some size. A job fits if every row in which it counts has enough GPUs.
That is exact where each size divides the next larger one, such as powers of two; else a plan may count GPUs in pieces.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray

WINDOW = 64
"""Number of stretches searched first for a start; each further search covers four times as many."""

NO_MATTER = np.iinfo(np.int64).min
"""The GPUs that must be free in a row in which a job does not count."""

ROUNDS = 5
"""Number of times that jobs without a place are moved to the front and the plan is repeated."""


class Room:
    """Free GPUs by row and stretch of time; the last stretch never ends. ``take`` and ``lose`` change it in place."""

    def __init__(self, begins_s: Sequence[float] | FloatArray, free: IntArray) -> None:
        # Plans search and split stretches one at a time, at which lists are many times faster than arrays.
        self._begins_s: list[float] = begins_s.tolist() if isinstance(begins_s, np.ndarray) else list(begins_s)
        self.free = free  #: row x stretch

    @property
    def begins_s(self) -> FloatArray:
        """Begins of stretches, rising; the first one is now."""
        return np.array(self._begins_s, dtype=np.float64)

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self._begins_s, self.free.copy())

    def less(self, share: float, widest: int = 0) -> Self:
        """Return a copy in which each row lacks a *share* of its largest number of GPUs.

        With a *widest* job the share is rounded up, and as many of the free GPUs as that job has stay.
        """
        most = share * self.free.max(axis=1, initial=0)
        kept_back = (np.ceil(most - 1e-9) if widest else np.floor(most + 1e-9)).astype(np.int64)
        free = self.free - kept_back[:, None]
        return type(self)(self._begins_s, np.maximum(free, np.minimum(self.free, widest)) if widest else free)

    def latest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float, due_s: float) -> float:
        """Return the latest start from *since_s* on with *gpus* of *rows* free for *needs_s* by *due_s*; else NaN."""
        return self.latest_of(_least(rows, gpus), needs_s, since_s, due_s) if rows.any() else math.nan

    def latest_of(self, least: IntArray, needs_s: float, since_s: float, due_s: float) -> float:
        """Return the same for a job that needs *least* GPUs free in each row."""
        begins_s = self._begins_s
        last, wide = bisect_left(begins_s, due_s), WINDOW
        first = last
        while first > 0:  # the latest stretches first: starts there are later
            first, wide = max(0, last - wide), 4 * wide
            enough = self._enough(least, first, last)
            end = enough.rfind(1) + 1
            while end:  # intervals with enough GPUs, the latest one first
                begin = enough.rfind(0, 0, end) + 1
                until_s = begins_s[first + end] if first + end < len(begins_s) else math.inf
                start_s = min(due_s, until_s) - needs_s
                if start_s >= max(begins_s[first + begin], since_s) - 1e-6:
                    return start_s
                end = enough.rfind(1, 0, begin) + 1
            if begins_s[first] <= since_s:
                break
        return math.nan

    def earliest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float) -> float:
        """Return the earliest start from *since_s* on with *gpus* of *rows* free for *needs_s*; else NaN."""
        least, begins_s = _least(rows, gpus), self._begins_s
        first = max(0, bisect_right(begins_s, since_s) - 1)
        last, wide = first if rows.any() else len(begins_s), WINDOW
        while last < len(begins_s):  # the earliest stretches first
            last, wide = min(len(begins_s), first + wide), 4 * wide
            enough = self._enough(least, first, last)
            begin = enough.find(1)
            while begin >= 0:  # intervals with enough GPUs, the earliest one first
                end = enough.find(0, begin)
                end = end if end >= 0 else len(enough)
                until_s = begins_s[first + end] if first + end < len(begins_s) else math.inf
                start_s = max(begins_s[first + begin], since_s)
                if start_s + needs_s <= until_s:
                    return start_s
                begin = enough.find(1, end)
        return math.nan

    def at(self, at_s: float) -> IntArray:
        """Return the free GPUs of each row at a moment."""
        return self.free[:, max(0, bisect_right(self._begins_s, at_s) - 1)]

    def short(self, gpus: IntArray, from_s: float, until_s: float) -> BoolArray:
        """Select rows that lack their number of *gpus* at some moment in the interval."""
        first = max(0, bisect_right(self._begins_s, from_s) - 1)
        last = bisect_left(self._begins_s, until_s)
        lacking = np.logical_or.reduce(self.free[:, first:last] < gpus[:, None], axis=1)
        return np.asarray((gpus > 0) & lacking)

    def least(self, bounds_s: FloatArray) -> IntArray:
        """Return the fewest GPUs that are free, row x interval, between each of *bounds_s*, rising, and the next."""
        begins_s, least = self.begins_s, np.zeros((len(self.free), len(bounds_s) - 1), dtype=np.int64)
        first = np.maximum(np.searchsorted(begins_s, bounds_s[:-1], side="right") - 1, 0).tolist()
        after = np.searchsorted(begins_s, bounds_s[1:], side="left").tolist()
        for at, (begin, end) in enumerate(zip(first, after, strict=True)):
            least[:, at] = self.free[:, begin : max(end, begin + 1)].min(axis=1)
        return least

    def lose(self, gpus: IntArray, from_s: float, until_s: float) -> None:
        """Subtract the number in *gpus* from each row during the interval."""
        first, last = self._split(from_s, until_s)
        self.free[:, first:last] -= gpus[:, None]

    def take(self, rows: BoolArray, gpus: int, from_s: float, until_s: float) -> None:
        """Subtract *gpus* from each of *rows* during the interval."""
        self.lose(rows * np.int64(gpus), from_s, until_s)

    def _enough(self, least: IntArray, first: int, last: int) -> bytes:
        """Return a byte per stretch from *first* to before *last*: 1 if each row has at least *least* GPUs free."""
        fits: BoolArray = np.logical_and.reduce(self.free[:, first:last] >= least[:, None], axis=0)
        return fits.tobytes()

    def _split(self, from_s: float, until_s: float) -> tuple[int, int]:
        """Split stretches so that one begins at each time; return their places, the first one for the past."""
        begins_s, free = self._begins_s, self.free
        first, last = bisect_left(begins_s, from_s), bisect_left(begins_s, until_s)
        splits_first = first > 0 and begins_s[first : first + 1] != [from_s]
        splits_last = last > 0 and begins_s[last : last + 1] != [until_s] and from_s < until_s < math.inf
        # numpy's insert takes ten times as long as a concatenation, and plans spend their time here.
        if splits_first and splits_last:
            self.free = np.concatenate((free[:, :first], free[:, first - 1 : last], free[:, last - 1 :]), axis=1)
        elif splits_first:
            self.free = np.concatenate((free[:, :first], free[:, first - 1 :]), axis=1)
        elif splits_last:
            self.free = np.concatenate((free[:, :last], free[:, last - 1 :]), axis=1)
        if splits_last:
            begins_s.insert(last, until_s)
        if splits_first:
            begins_s.insert(first, from_s)
            last += from_s < until_s
        return first, last


def _least(rows: BoolArray, gpus: int) -> IntArray:
    """Return the GPUs that must be free in each row for a job that takes *gpus* of *rows*."""
    return np.where(rows, gpus, NO_MATTER)


@dataclass(frozen=True, eq=False)
class DeadlineRequests:
    """Requests of jobs to end by a moment, as columns."""

    gpus: IntArray
    needs_s: FloatArray
    since_s: FloatArray  #: earliest start
    due_s: FloatArray
    rows: BoolArray  #: job x row of room: the rows in which each counts
    stoppable: BoolArray  #: it can be stopped between leases
    job_id: IntArray

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
    taken = requests.rows * requests.gpus[:, None]
    least = np.where(requests.rows, taken, NO_MATTER)
    columns = (requests.needs_s, requests.since_s, requests.due_s, requests.rows.any(axis=1))
    of_job = list(zip(*(column.tolist() for column in columns), strict=True))
    for job in order.tolist():
        needs_s, since_s, due_s, counts = of_job[job]
        start_s = left.latest_of(least[job], needs_s, since_s, due_s) if counts else math.nan
        if math.isfinite(start_s):
            starts_s[job] = start_s
            left.lose(taken[job], start_s, start_s + needs_s)
    return starts_s, left
