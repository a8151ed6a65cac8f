"""Priority points for an order: the fewest SiteFactor writes that make Slurm follow it.

Slurm adds a job's points to its own priority (its *base*: age, fair share, QOS, ...). Given the wanted order, find
points so that base + points strictly decreases from the first job to the last and as many present points as possible
stay: a longest decreasing subsequence is left unchanged, the other jobs get values in the gaps between its members.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, IntArray

MOST_POINTS = 2_147_483_645
"""The largest SiteFactor (scontrol(1))."""

WIDEST_STEP = 1000

ROOM_BELOW = 100_000_000
"""Most points left free below the last job, for jobs that enter there as those at the top start."""


@dataclass(frozen=True)
class Labelling:
    """The points per job in the wanted order, and whether the cap kept a job from its place."""

    points: IntArray
    capped: BoolArray


def label(base: IntArray, points: IntArray, floor: int, cap: int) -> Labelling:
    """Compute points that put jobs in the given order.

    ``base`` is Slurm's own priority without our points, ``points`` the present points, both in the wanted order,
    soonest first. All priorities end above ``floor`` (the highest priority of the jobs that follow); no job gets more
    than ``cap``. Points are never negative: Slurm clamps negative ones and loses the order between them. The function
    is idempotent.
    """
    cap = min(cap, MOST_POINTS)
    lowest = _lowest(base, floor)
    if (lowest <= base + cap).all():
        return Labelling(_wanted(base, points, lowest, floor, cap) - base, np.zeros(len(base), dtype=bool))
    chain, capped = _chain(base, floor, cap)
    given = np.full(len(base), cap, dtype=np.int64)
    own = base[chain]
    given[chain] = _wanted(own, points[chain], _lowest(own, floor), floor, cap) - own
    return Labelling(given, capped)


def _chain(base: IntArray, floor: int, cap: int) -> tuple[IntArray, BoolArray]:
    """Return the feasible order, as rows, and which jobs the cap keeps from their place in the wanted one.

    A job that no legal points lift above all that should follow it goes to the highest place it can reach. If that is
    below the floor, or no whole number is left, it has no place in the chain and gets the cap.
    """
    capped = np.ones(len(base), dtype=bool)
    rows: list[int] = []  # from the last place to the first, with the least priority needed there
    lowest: list[int] = []
    bases = base.tolist()
    for row in range(len(base) - 1, -1, -1):
        own = bases[row]
        at = bisect_left(lowest, own + cap)
        while at >= 0:
            need = max(own, (lowest[at - 1] if at else floor) + 1)
            if need <= own + cap and (at == len(lowest) or need < lowest[at]):
                capped[row] = at < len(lowest)
                rows.insert(at, row)
                lowest.insert(at, need)
                break
            at = at - 1 if need > own else -1
    return np.array(rows[::-1], dtype=np.int64), capped


def _wanted(base: IntArray, points: IntArray, lowest: IntArray, floor: int, cap: int) -> IntArray:
    """Return strictly decreasing priorities along a chain, with as many present ones as possible."""
    count = len(base)
    if not count:
        return base
    place = np.arange(count)
    current = base + points
    highest = np.minimum.accumulate(base + cap + place) - place
    step = max(1, min(WIDEST_STEP, cap // (2 * count)))
    unchanged = _unchanged(current, lowest, highest, place)
    if len(unchanged) == count:  # so it is in most cycles
        return current
    wanted: IntArray = np.minimum(np.maximum(_fill(unchanged, current, highest, floor, step), lowest), highest)
    return wanted


def _lowest(base: IntArray, floor: int) -> IntArray:
    """Return the least priority each job needs: at least its base, and one more than any job after it."""
    place = np.arange(len(base))
    need = np.maximum(base, floor + 1) + place
    return np.asarray(np.maximum.accumulate(need[::-1])[::-1] - place)


def _unchanged(current: IntArray, lowest: IntArray, highest: IntArray, place: IntArray) -> IntArray:
    """Return the longest subsequence of jobs that can stay unchanged, with a whole number left for each job between."""
    fits = np.flatnonzero((current >= lowest) & (current <= highest))
    height = -(current + place)[fits]
    if len(fits) < 2 or (height[1:] >= height[:-1]).all():
        return fits
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, value in enumerate(height.tolist()):
        slot = bisect_right(tails, value)
        before.append(ends[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(value)
            ends.append(at)
        else:
            tails[slot] = value
            ends[slot] = at
    run: list[int] = []
    at = ends[-1]
    while at >= 0:
        run.append(at)
        at = before[at]
    return fits[np.array(run[::-1], dtype=np.int64)]


def _fill(unchanged: IntArray, current: IntArray, highest: IntArray, floor: int, step: int) -> IntArray:
    """Return all priorities: unchanged jobs as they are, others evenly between neighbours, or *step* apart at an end.

    Most jobs enter at the bottom, one for each that starts. Dividing the range above the floor each time would use it
    up after a few jobs; each further one would then move hundreds.
    """
    wanted = current.copy()
    count = len(current)
    bounds = np.concatenate([[-1], unchanged, [count]])
    for at in np.flatnonzero(np.diff(bounds) > 1).tolist():
        above, below = bounds[at : at + 2].tolist()
        length = below - above - 1
        low = int(current[below]) if below < count else floor
        if above >= 0:
            high = int(current[above])
            low = max(low, high - step * (length + 1)) if below == count else low
        else:
            most = int(highest[below - length]) + 1
            if below == count:
                low += min(ROOM_BELOW, max(0, most - low - step * (length + 1)) // 2)
            high = min(most, low + step * (length + 1))
        wanted[above + 1 : below] = low + (high - low) * np.arange(length, 0, -1) // (length + 1)
    return wanted
