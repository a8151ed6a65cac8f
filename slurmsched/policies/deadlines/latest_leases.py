"""Latest leases: keep promises as late as possible, so that other jobs may go first.

The plan is made backwards. In the last stretch of time before the last deadline GPUs go to the jobs with most work
left, then in the stretch before it, and so on; the work left in the first stretch must be done now. Backwards in time
all jobs are due at the same moment, so that most work first means least laxity first. For jobs on one GPU this finds a
plan if there is one, up to the length of a stretch; wider jobs may need spare GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import IntArray
from ..compiled import compiled

FINE = 12
"""Number of stretches of one tick; each later one is longer than the one before."""

GROWTH = 1.25
"""Growth factor of later stretches."""


class Latest(NamedTuple):
    """The latest plan of some jobs, in ticks."""

    first: IntArray  #: ticks of each job in the first stretch, since no later one has room
    late: IntArray  #: ticks that do not fit before the deadline because GPUs are taken
    hopeless: IntArray  #: ticks beyond the deadline even if the job runs from now on
    used: IntArray  #: most GPUs in use in each of ``stretches(due.max())``


def latest(needs: IntArray, due: IntArray, gpus: IntArray, capacity: int | IntArray) -> Latest:
    """Compute the latest plan by which jobs that need *needs* ticks end within *due* ticks, on *capacity* GPUs.

    A *capacity* that changes with time has the GPUs of each of ``stretches(due.max())``. A tick is the shortest run of
    a job. Jobs may stop and resume between ticks; a job with more work than time left is late whatever other jobs do.
    """
    needs, due = needs.astype(np.int64), np.maximum(due, 0).astype(np.int64)
    hopeless = np.maximum(needs - due, 0)
    left = needs - hopeless
    overflow = np.zeros(len(needs), np.int64)
    first, used = np.zeros(len(needs), np.int64), np.zeros(0, np.int64)
    if len(needs):
        wide = np.argsort(-gpus, kind="stable")  # the rest of a stretch goes to the widest job that fits
        given, missing, ends = np.zeros_like(first), np.zeros_like(first), stretches(int(due.max()))
        free = np.broadcast_to(np.asarray(capacity, dtype=np.int64), len(ends) - 1).copy()
        used = free.copy()
        backwards(left[wide], due[wide], gpus[wide], free, ends, given, missing)
        used -= free
        first[wide], overflow[wide] = given, missing
    return Latest(first, overflow, hopeless, used)


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
    left: IntArray, due: IntArray, gpus: IntArray, free: IntArray, ends: IntArray, first: IntArray, overflow: IntArray
) -> None:
    """Assign the GPUs *free* in each stretch, from the last to the first; fill *first* and *overflow*.

    It reduces *left* and *free*. In each stretch all jobs are reduced to one level of remaining work, as far as
    its length allows.
    """
    count = len(left)
    most = np.zeros(count, np.int64)
    for stretch in range(len(ends) - 2, -1, -1):
        begin, room = ends[stretch], free[stretch] * (ends[stretch + 1] - ends[stretch])
        high = 0
        for job in range(count):
            most[job] = min(left[job], max(0, min(due[job], ends[stretch + 1]) - begin))
            if most[job] > 0:
                high = max(high, left[job])
        low = 0
        while low < high:
            level = (low + high) // 2
            requested = 0
            for job in range(count):
                requested += gpus[job] * min(most[job], max(0, left[job] - level))
            if requested <= room:
                high = level
            else:
                low = level + 1
        for job in range(count):
            given = min(most[job], max(0, left[job] - high))
            most[job] -= given
            left[job] -= given
            room -= given * gpus[job]
            if stretch == 0:
                first[job] = given
        for job in range(count):
            if most[job] > 0 and left[job] == high and room >= gpus[job]:
                left[job] -= 1
                room -= gpus[job]
                if stretch == 0:
                    first[job] += 1
        free[stretch] = room // (ends[stretch + 1] - ends[stretch])
    overflow[:] = left
