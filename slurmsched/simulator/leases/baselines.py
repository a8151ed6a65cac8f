"""The schedulers that Chronus is compared with (section 4.3), in rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from .rounds import RoundOrder
from .world import LeaseState

TIRESIAS_STEPS = (3_600.0, 36_000.0)
"""GPU-seconds between the queues of Tiresias."""

_FAR_S = 1e12


@dataclass(frozen=True)
class ByKey:
    """The smallest key first; the first of equals came first. Anybody may be stopped, unless its lease holds."""

    key: Callable[[LeaseState], FloatArray]

    def turn(self, world: LeaseState, new: IntArray) -> RoundOrder:
        """See ``RoundPolicy``."""
        return RoundOrder(world.rows[np.lexsort((world.rows, self.key(world)))])


@dataclass(frozen=True)
class Quota:
    """Yarn's capacity scheduler: a fixed part of the GPUs for jobs with deadlines, first come first served in each.

    The part is their share of the jobs, but each part takes its widest job; where there is no such part there is none.
    """

    def turn(self, world: LeaseState, new: IntArray) -> RoundOrder:
        """See ``RoundPolicy``."""
        order = world.rows[np.lexsort((world.rows, ~world.running[world.rows]))]
        widest = [int(world.gpus[kind].max(initial=0)) for kind in (world.slo, ~world.slo)]
        if sum(widest) > world.capacity:
            return RoundOrder(order, True)
        part = round(float(np.mean(world.slo)) * world.capacity)
        part = max(widest[0], min(part, world.capacity - widest[1]))
        return RoundOrder(order, True, (np.array([world.capacity - part, part]), world.slo[order].astype(np.int64)))


def srtf(world: LeaseState) -> FloatArray:
    """Shortest remaining time first, blind to deadlines."""
    return world.left_s


def edf(world: LeaseState) -> FloatArray:
    """The earliest (first) deadline first, stopping later ones; best effort after them, by remaining time."""
    rows = world.rows
    return np.where(world.slo[rows], world.due_s[rows, 0], _FAR_S + world.left_s)


def tiresias(world: LeaseState) -> FloatArray:
    """Least attained service first, in queues, first come first served in each."""
    rows = world.rows
    return np.searchsorted(TIRESIAS_STEPS, world.done_s[rows] * world.gpus[rows], side="right").astype(np.float64)


def themis(world: LeaseState) -> FloatArray:
    """Whoever would end latest compared with the time it needs alone goes first (finish-time fairness)."""
    rows = world.rows
    ends_after_s: FloatArray = world.now_s - world.submit_s[rows] + world.left_s
    return -ends_after_s / np.maximum(world.planned_s[rows], 1.0)


def genie(world: LeaseState) -> FloatArray:
    """Least laxity first while the first deadline can be met; then jobs that missed it, then best effort as it came."""
    rows = world.rows
    laxity_s = world.due_s[rows, 0] - world.now_s - world.left_s
    return np.where(world.slo[rows], np.where(laxity_s < 0, _FAR_S, laxity_s), 2 * _FAR_S)
