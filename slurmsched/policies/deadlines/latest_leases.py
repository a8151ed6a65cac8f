"""Who must run now: promises kept as late as possible, so that all else may go first.

The plan is made backwards. In the last stretch of time before the last deadline GPUs go to the jobs with most left to
do, then in the stretch before it, and so on; what a job still needs in the first stretch it must do now. Seen
backwards all jobs are due at the same moment, so that the most left to do first is the least laxity first. For jobs on
one GPU that finds a plan wherever there is one, up to the length of a stretch; wider jobs may need some GPUs to spare.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import IntArray
from ..compiled import compiled

FINE = 12
"""So many stretches are one tick long; from there on each is longer than the one before."""

GROWTH = 1.25
"""By so much stretches grow."""


class Latest(NamedTuple):
    """The latest plan of some jobs."""

    first: IntArray  #: ticks of each job that no later stretch could take, hence due in the first one
    late: IntArray  #: ticks that fit nowhere before the deadline because GPUs are taken
    hopeless: IntArray  #: ticks that a job has to do beyond its deadline even if it runs from now on


def latest(needs: IntArray, due: IntArray, gpus: IntArray, capacity: int) -> Latest:
    """The latest plan by which jobs that need *needs* ticks end within *due* ticks, on *capacity* GPUs.

    A tick is the shortest time a job runs for. Jobs may stop and go on between ticks; a job with more to do than time
    left is late whatever happens to others.
    """
    needs, due = needs.astype(np.int64), np.maximum(due, 0).astype(np.int64)
    hopeless = np.maximum(needs - due, 0)
    left = needs - hopeless
    overflow = np.zeros(len(needs), np.int64)
    first = np.zeros(len(needs), np.int64)
    if len(needs):
        wide = np.argsort(-gpus, kind="stable")  # what is left of a stretch goes to the widest job that fits
        given, missing = np.zeros_like(first), np.zeros_like(first)
        backwards(left[wide], due[wide], gpus[wide], capacity, stretches(int(due.max())), given, missing)
        first[wide], overflow[wide] = given, missing
    return Latest(first, overflow, hopeless)


def stretches(ticks: int) -> IntArray:
    """Where stretches begin and end, from 0 to *ticks* at least: fine ones first, then longer and longer."""
    ends = [0]
    length = 1.0
    while ends[-1] < ticks:
        if len(ends) > FINE:
            length *= GROWTH
        ends.append(ends[-1] + int(length))
    return np.array(ends)


@compiled
def backwards(
    left: IntArray, due: IntArray, gpus: IntArray, capacity: int, ends: IntArray, first: IntArray, overflow: IntArray
) -> None:
    """Hand out *capacity* from the last stretch to the first; fills *first* and *overflow*, uses up *left*.

    In each stretch all jobs are brought down to one level of work left, as far as the stretch is long enough.
    """
    count = len(left)
    most = np.zeros(count, np.int64)
    for stretch in range(len(ends) - 2, -1, -1):
        begin, room = ends[stretch], capacity * (ends[stretch + 1] - ends[stretch])
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
    overflow[:] = left
