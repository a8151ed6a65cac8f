"""Latest leases: keep promises as late as possible, so that other jobs may go first.

The plan is made backwards. In the last stretch of time before the last deadline GPUs go to the jobs with most work
left, then in the stretch before it, and so on; the work left in the first stretch must be done now. Backwards in time
all jobs are due at the same moment, so that most work first means least laxity first. For jobs on one GPU this finds a
plan if there is one, up to the length of a stretch; wider jobs may need spare GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ..compiled import compiled, inner

FINE = 12
"""Number of stretches of one tick; each later one is longer than the one before."""

GROWTH = 1.25
"""Growth factor of later stretches."""


class Latest(NamedTuple):
    """The latest plan of some jobs, in ticks."""

    first: IntArray  #: ticks of each job in the first stretch, since no later one has room
    late: IntArray  #: ticks that do not fit before the deadline because GPUs are taken
    hopeless: IntArray  #: ticks beyond the deadline even if the job runs from now on
    used: IntArray  #: most GPUs in use, row of room x each of ``stretches(due.max())``


def latest(
    needs: IntArray, due: IntArray, gpus: IntArray, capacity: int | IntArray, rows: BoolArray | None = None
) -> Latest:
    """Compute the latest plan by which jobs that need *needs* ticks end within *due* ticks, on *capacity* GPUs.

    A *capacity* that changes with time has the GPUs of each of ``stretches(due.max())``, one line for each row of room;
    *rows* (job x row) are those in which each job counts, by default all. A tick is the shortest run of a job. Jobs may
    stop and resume between ticks; a job with more work than time left is late whatever other jobs do.
    """
    needs, due = needs.astype(np.int64), np.maximum(due, 0).astype(np.int64)
    hopeless = np.maximum(needs - due, 0)
    left = needs - hopeless
    ends = stretches(int(due.max(initial=0)))
    lines = np.atleast_2d(np.asarray(capacity, dtype=np.int64))
    free = np.broadcast_to(lines, (len(lines), len(ends) - 1)).copy()
    counts = np.ones((len(needs), len(free)), np.bool_) if rows is None else rows
    first, missing, used = np.zeros(len(needs), np.int64), np.zeros(len(needs), np.int64), free.copy()
    if len(needs):
        wide = np.argsort(-gpus, kind="stable")  # the rest of a stretch goes to the widest job that fits
        given, overflow = np.zeros_like(first), np.zeros_like(first)
        backwards(left[wide], due[wide], gpus[wide], counts[wide], free, ends, given, overflow)
        first[wide], missing[wide] = given, overflow
    return Latest(first, missing, hopeless, used - free)


def stretches(ticks: int) -> IntArray:
    """Return the bounds of stretches from 0 to at least *ticks*: FINE ones of one tick, then growing ones."""
    ends = [0]
    length = 1.0
    while ends[-1] < ticks:
        if len(ends) > FINE:
            length *= GROWTH
        ends.append(ends[-1] + int(length))
    return np.array(ends)


@compiled
def backwards(
    left: IntArray,
    due: IntArray,
    gpus: IntArray,
    rows: BoolArray,
    free: IntArray,
    ends: IntArray,
    first: IntArray,
    overflow: IntArray,
) -> None:
    """Assign the GPUs *free* in each stretch, from the last to the first; fill *first* and *overflow*.

    It reduces *left* and *free*. In each stretch all jobs are reduced to one level of remaining work, as far as
    its length allows; where a row of room is full, its jobs stay at their level, and the others go on.
    """
    count = len(left)
    most, given, level_of = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    active = np.zeros(count, np.bool_)
    for stretch in range(len(ends) - 2, -1, -1):
        begin, length = ends[stretch], ends[stretch + 1] - ends[stretch]
        room = free[:, stretch] * length
        for job in range(count):
            most[job] = min(left[job], max(0, min(due[job], ends[stretch + 1]) - begin))
            given[job], level_of[job], active[job] = 0, left[job], most[job] > 0
        while active.any():
            level = _level(left, most, gpus, rows, active, room)
            spare = room
            if level > 0:
                spare = room - _requested(left, most, gpus, rows, active, level - 1, len(room))
            for job in range(count):
                if active[job] and (level == 0 or not _fits(rows[job], 0, spare)):
                    given[job], level_of[job], active[job] = min(most[job], max(0, left[job] - level)), level, False
                    _take(rows[job], given[job] * gpus[job], room)
        for job in range(count):
            left[job] -= given[job]
            more = most[job] > given[job] and left[job] == level_of[job]
            if more and _fits(rows[job], gpus[job], room):
                left[job] -= 1
                given[job] += 1
                _take(rows[job], gpus[job], room)
            if stretch == 0:
                first[job] = given[job]
        free[:, stretch] = room // length
    overflow[:] = left


@inner
def _fits(rows: BoolArray, gpus: int, room: IntArray) -> bool:
    """Return True if each of the *rows* in which a job counts has *gpus* left."""
    short = 0
    for line in range(len(room)):
        short += rows[line] and room[line] < gpus
    return short == 0


@inner
def _take(rows: BoolArray, gpus: int, room: IntArray) -> None:
    """Subtract *gpus* from each of the *rows* in which a job counts."""
    for line in range(len(room)):
        if rows[line]:
            room[line] -= gpus


@inner
def _level(left: IntArray, most: IntArray, gpus: IntArray, rows: BoolArray, active: BoolArray, room: IntArray) -> int:
    """Return the lowest level of remaining work to which all *active* jobs can be reduced in *room*."""
    low, high = 0, 0
    for job in range(len(left)):
        if active[job]:
            high = max(high, left[job])
    while low < high:
        level = (low + high) // 2
        if (_requested(left, most, gpus, rows, active, level, len(room)) <= room).all():
            high = level
        else:
            low = level + 1
    return int(high)


@inner
def _requested(
    left: IntArray, most: IntArray, gpus: IntArray, rows: BoolArray, active: BoolArray, level: int, lines: int
) -> IntArray:
    """Return the GPU-ticks per row of room that reduce the *active* jobs to *level*."""
    requested = np.zeros(lines, np.int64)
    for job in range(len(left)):
        if active[job]:
            ticks = gpus[job] * min(most[job], max(0, left[job] - level))
            for line in range(lines):
                if rows[job, line]:
                    requested[line] += ticks
    return requested
