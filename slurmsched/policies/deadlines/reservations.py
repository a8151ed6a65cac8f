"""Reservations for jobs that run to their end: GPUs over time, and plans of latest starts.

A row of room is a set of nodes, in blocks of some size. A job fits if every row in which it counts has enough GPUs.
That is exact where each size divides the next larger one, such as powers of two; else a plan may count GPUs in pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.ties import in_ms
from ..compiled import compiled, inner

WINDOW = 64
"""Number of stretches searched for a start at a time."""

NO_MATTER = np.iinfo(np.int64).min
"""The GPUs that must be free in a row in which a job does not count."""

ROUNDS = 5
"""Number of times that jobs without a place are moved to the front and the plan is repeated."""


Stretches = tuple[FloatArray, IntArray, int]


class Room:
    """Free GPUs by row and stretch of time; the last stretch never ends. ``take`` and ``lose`` change it in place."""

    def __init__(self, begins_s: FloatArray, free: IntArray, more: int = 0) -> None:
        """Copy *begins_s* and *free* (row x stretch), with memory for *more* stretches."""
        self._count = len(begins_s)
        self._begins_s, self._free = _longer(np.asarray(begins_s, np.float64), np.asarray(free, np.int64), more)

    @property
    def begins_s(self) -> FloatArray:
        """Begins of stretches, rising; the first one is now."""
        return self._begins_s[: self._count]

    @property
    def free(self) -> IntArray:
        """Free GPUs, row x stretch."""
        return self._free[:, : self._count]

    @property
    def stretches(self) -> Stretches:
        """Begins, free GPUs and number of stretches, for compiled loops; both arrays have memory for more."""
        return self._begins_s, self._free, self._count

    def copy(self, more: int = 0) -> Self:
        """Return an independent copy, with memory for *more* stretches."""
        return type(self)(self.begins_s, self.free, more)

    def less(self, share: float, widest: int = 0) -> Self:
        """Return a copy in which each row lacks a *share* of its largest number of GPUs.

        With a *widest* job the share is rounded up, and as many of the free GPUs as that job has stay.
        """
        most = share * self.free.max(axis=1, initial=0)
        kept_back = (np.ceil(most - 1e-9) if widest else np.floor(most + 1e-9)).astype(np.int64)
        free = self.free - kept_back[:, None]
        return type(self)(self.begins_s, np.maximum(free, np.minimum(self.free, widest)) if widest else free)

    def latest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float, due_s: float) -> float:
        """Return the latest start from *since_s* on with *gpus* of *rows* free for *needs_s* by *due_s*; else NaN."""
        if not rows.any():
            return math.nan
        return latest_start(self._begins_s, self._free, self._count, _least(rows, gpus), needs_s, since_s, due_s)

    def earliest(self, rows: BoolArray, gpus: int, needs_s: float, since_s: float) -> float:
        """Return the earliest start from *since_s* on with *gpus* of *rows* free for *needs_s*; else NaN."""
        if not rows.any():
            return math.nan
        return earliest_start(self._begins_s, self._free, self._count, _least(rows, gpus), needs_s, since_s)

    def at(self, at_s: float) -> IntArray:
        """Return the free GPUs of each row at a moment."""
        return self.free[:, max(0, int(np.searchsorted(self.begins_s, at_s, side="right")) - 1)]

    def short(self, gpus: IntArray, from_s: float, until_s: float) -> BoolArray:
        """Select rows that lack their number of *gpus* at some moment in the interval."""
        return lacking(self._begins_s, self._free, self._count, gpus, from_s, until_s)

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
        self._extend(2)
        less = np.ascontiguousarray(gpus)
        self._count = subtract(self._begins_s, self._free, self._count, less, from_s, until_s)

    def take(self, rows: BoolArray, gpus: int, from_s: float, until_s: float) -> None:
        """Subtract *gpus* from each of *rows* during the interval."""
        self.lose(rows * np.int64(gpus), from_s, until_s)

    def place(self, order: IntArray, requests: DeadlineRequests) -> FloatArray:
        """Take the latest place of each of *requests*, one after the other in *order*; NaN for one without a place."""
        self._extend(2 * len(order))
        starts_s, taken = np.full(len(requests), np.nan), requests.rows * requests.gpus[:, None]
        least, counts = np.where(requests.rows, taken, NO_MATTER), np.asarray(requests.rows.any(axis=1))
        times_s = (requests.needs_s, requests.since_s, requests.due_s)
        some = order[counts[order]]
        self._count = reserve(self._begins_s, self._free, self._count, some, least, taken, *times_s, starts_s)
        return starts_s

    def _extend(self, more: int) -> None:
        """Make sure of memory for *more* stretches."""
        if self._count + more > len(self._begins_s):
            self._begins_s, self._free = _longer(self.begins_s, self.free, self._count + more)


def _longer(begins_s: FloatArray, free: IntArray, more: int) -> tuple[FloatArray, IntArray]:
    """Return copies of both with memory for *more* stretches."""
    count = len(begins_s)
    longer_s, wider = np.empty(count + more), np.empty((len(free), count + more), np.int64)
    longer_s[:count], wider[:, :count] = begins_s, free
    return longer_s, wider


@compiled
def latest_start(
    begins_s: FloatArray,
    free: IntArray,
    count: int,
    least: IntArray,
    needs_s: float,
    since_s: float,
    due_s: float,
) -> float:
    """Return the latest start by which a job ends in time; NaN if there is none.

    From *since_s* on it needs *least* GPUs *free* in each row for *needs_s*, until *due_s* at most. The *count*
    stretches are searched from the last one on, in intervals with enough GPUs.
    """
    last, inside, start_s = int(np.searchsorted(begins_s[:count], due_s)), False, np.nan
    while last > 0:
        first = max(0, last - WINDOW)
        enough = _enough(free, least, first, last)
        for place in range(last - 1, first - 1, -1):
            if not enough[place - first]:
                inside = False
                continue
            if not inside:
                until_s = begins_s[place + 1] if place + 1 < count else np.inf
                start_s = min(due_s, until_s) - needs_s
                inside = True
                if not start_s >= since_s - 1e-6:
                    return np.nan
            if start_s >= max(begins_s[place], since_s) - 1e-6:
                return start_s
        last = first
    return np.nan


@compiled
def earliest_start(
    begins_s: FloatArray, free: IntArray, count: int, least: IntArray, needs_s: float, since_s: float
) -> float:
    """Return the earliest start from *since_s* on with *least* GPUs *free* in each row for *needs_s*; NaN for none."""
    first, inside, start_s = max(0, int(np.searchsorted(begins_s[:count], since_s, side="right")) - 1), False, np.nan
    while first < count:
        last = min(count, first + WINDOW)
        enough = _enough(free, least, first, last)
        for place in range(first, last):
            if not enough[place - first]:
                inside = False
                continue
            if not inside:
                start_s, inside = max(begins_s[place], since_s), True
            if start_s + needs_s <= (begins_s[place + 1] if place + 1 < count else np.inf):
                return start_s
        first = last
    return np.nan


@inner
def _enough(free: IntArray, least: IntArray, first: int, last: int) -> BoolArray:
    """Select the stretches from *first* to before *last* with at least *least* GPUs *free* in each row."""
    enough: BoolArray = free[0, first:last] >= least[0]
    for row in range(1, len(least)):
        enough &= free[row, first:last] >= least[row]
    return enough


@compiled
def lacking(
    begins_s: FloatArray, free: IntArray, count: int, gpus: IntArray, from_s: float, until_s: float
) -> BoolArray:
    """Select the rows with fewer *free* GPUs than they need at some moment in the interval."""
    first = max(0, int(np.searchsorted(begins_s[:count], from_s, side="right")) - 1)
    last = int(np.searchsorted(begins_s[:count], until_s))
    short = np.zeros(len(gpus), np.bool_)
    for row in range(len(gpus)):
        short[row] = gpus[row] > 0 and (free[row, first:last] < gpus[row]).any()
    return short


@compiled
def subtract(begins_s: FloatArray, free: IntArray, count: int, gpus: IntArray, from_s: float, until_s: float) -> int:
    """Subtract *gpus* from each row during the interval; return the number of stretches, at most two more."""
    first, count = _split(begins_s, free, count, from_s)
    if from_s < until_s:
        last = count
        if until_s < np.inf:
            last, count = _split(begins_s, free, count, until_s)
        for row in range(len(gpus)):
            free[row, first:last] -= gpus[row]
    return count


@compiled
def reserve(
    begins_s: FloatArray,
    free: IntArray,
    count: int,
    order: IntArray,
    least: IntArray,
    taken: IntArray,
    needs_s: FloatArray,
    since_s: FloatArray,
    due_s: FloatArray,
    starts_s: FloatArray,
) -> int:
    """Give each job of *order* its latest start, and subtract what is *taken* by it; return the number of stretches."""
    for job in order:
        start_s = latest_start(begins_s, free, count, least[job], needs_s[job], since_s[job], due_s[job])
        if np.isfinite(start_s):
            starts_s[job] = start_s
            count = subtract(begins_s, free, count, taken[job], start_s, start_s + needs_s[job])
    return count


@inner
def _split(begins_s: FloatArray, free: IntArray, count: int, at_s: float) -> tuple[int, int]:
    """Let a stretch begin at a moment, the first one for the past; return its place and the number of stretches."""
    place = int(np.searchsorted(begins_s[:count], at_s))
    if place == 0 or (place < count and begins_s[place] == at_s):
        return place, count
    begins_s[place + 1 : count + 1] = begins_s[place:count].copy()  # the slices overlap
    begins_s[place] = at_s
    for row in range(len(free)):
        free[row, place : count + 1] = free[row, place - 1 : count].copy()
    return place, count + 1


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
    runs: BoolArray  #: it runs now
    resume_s: FloatArray  #: what resuming costs it after its next stop

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
    order = np.lexsort((in_ms(requests.needs_s), -in_ms(requests.due_s)))
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
    left = room.copy(2 * len(order))
    return left.place(order, requests), left
