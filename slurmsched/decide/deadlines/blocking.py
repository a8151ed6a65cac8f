"""Blocking jobs: pending jobs that would take GPUs from a promised job if they started when they can."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, among
from ...cluster.records.promises import PromiseTable
from ...cluster.state import View
from ...policies.compiled import compiled
from ...policies.deadlines.reservations import NO_MATTER, Stretches, earliest_start, lacking, subtract
from ..rules import DeadlineRules
from .gpu_availability import GpuAvailability
from .promises import Promised

MOST = 256
"""Number of jobs from the top of the order that are checked for blocking a promise."""


def blocking_jobs(view: View, promised: Promised, order: IntArray, rules: DeadlineRules) -> tuple[IntArray, BoolArray]:
    """Select pending rows in *order* that would block a promised job from its GPUs, and the jobs they endanger.

    A job whose promise no plan keeps is judged as one without a promise: it breaks no other promise.

    Long jobs without a promise block those that will be promised, once they hold their share of the GPUs: deadlines
    that are close can be promised only where GPUs become free in time, and such jobs keep theirs from all of them.

    Jobs are placed one after the other, each at its earliest start beside those before it. That start may lie in the
    future, since running jobs may end sooner than planned.
    """
    endangered = np.zeros(len(view.pending), dtype=np.bool_)
    has_promise = np.isfinite(promised.laxity_s)
    waiting = np.flatnonzero(has_promise & ~promised.late)
    availability = promised.availability
    if availability is None or promised.room is None or promised.left is None or not len(waiting):
        return order[:0], endangered
    rows = order[(promised.late | ~has_promise)[order] & ~availability.stoppable[order]][:MOST]
    footprints = availability.footprints(rows)
    blocks, theirs = _blocking(
        promised.room.copy(2 * len(rows)).stretches,
        promised.left.copy(2 * len(rows)).stretches,
        (footprints.of_row, footprints.own, footprints.larger, footprints.single),
        (view.pending.gpus * view.pending.tasks)[rows],
        availability.needs_s[rows],
        availability.requests(waiting, promised.laxity_s[waiting], view.now_s).rows,
        view.now_s + promised.laxity_s[waiting],
        (view.now_s, availability.soonest_s),
        (np.where(has_promise[rows], np.inf, rules.long_s), _long_jobs_left(view, promised.table, availability, rules)),
    )
    endangered[waiting[theirs]] = True
    return rows[blocks], endangered


def behind_wide_jobs(view: View, promised: Promised, order: IntArray) -> IntArray:
    """Return the pending rows in *order* behind a job on several GPUs for which others make room now.

    These come free one after the other. Jobs without time limits, which Slurm does not expect to end, may start beside
    one that waits, and would begin a new lease on them each time.
    """
    wide = (promised.tight & ~promised.late & (view.pending.gpus > 1))[order]
    if not wide.any():
        return order[:0]
    behind = order[int(np.argmax(wide)) + 1 :]
    return np.sort(behind[~promised.tight[behind] & (view.pending.gpus[behind] > 0)][:MOST])


def _long_jobs_left(view: View, promises: PromiseTable, availability: GpuAvailability, rules: DeadlineRules) -> float:
    """Return the GPUs of their share that running long jobs leave; infinite without a limit.

    Long jobs have no promise, cannot be stopped, and are planned for more than ``long_s``.
    """
    if rules.long_share >= 1:
        return np.inf
    count = len(view.pending)
    has_promise = among(view.running.job_id, promises.job_id[promises.open])
    lasting = (availability.needs_s[count:] > rules.long_s) & ~availability.stoppable[count:] & ~has_promise
    total = int(view.nodes.gpus[view.nodes.usable].sum())
    return float(rules.long_share * total - int(view.running.gpus[lasting].sum()))


@compiled
def _blocking(
    room: Stretches,
    left: Stretches,
    footprints: tuple[IntArray, BoolArray, IntArray, IntArray],
    gpus: IntArray,
    needs_s: FloatArray,
    counts: BoolArray,
    begins_s: FloatArray,
    times_s: tuple[float, float],
    long_jobs: tuple[FloatArray, float],
) -> tuple[BoolArray, BoolArray]:
    """Select the blocking ones of some jobs in order, and the promised jobs they endanger.

    *room* is left by running jobs and *left* by the plan, as ``Room.stretches``; both change. *gpus* and *needs_s* have
    a place for each job, *counts* (job x row of room) and the planned *begins_s* one for each promised job. *times_s*
    is now and the soonest start, *long_jobs* the length beyond which each job is long, and the GPUs left to long ones.
    """
    room_s, free, count = room
    left_s, spare, left_count = left
    of_job, own, larger, single = footprints
    now_s, soonest_s = times_s
    long_s, long_left = long_jobs
    blocks, endangered = np.zeros(len(gpus), np.bool_), np.zeros(len(begins_s), np.bool_)
    bounds_s = np.full(len(gpus), now_s)
    for job in range(len(gpus)):
        if needs_s[job] > long_s[job] and gpus[job] > long_left:
            blocks[job] = True
            continue
        shape, start_s = of_job[job], np.inf
        # Room only becomes less: a job starts no sooner than one before it that took as much for no longer.
        since_s = now_s
        for before in range(job):
            if of_job[before] == shape and gpus[before] == gpus[job] and needs_s[before] <= needs_s[job]:
                since_s = max(since_s, bounds_s[before])
        if gpus[job] > 0 and since_s < np.inf and own[shape].any():
            least = np.where(own[shape], gpus[job], NO_MATTER)
            start_s = earliest_start(room_s, free, count, least, needs_s[job], since_s)
        bounds_s[job] = start_s if np.isfinite(start_s) else np.inf
        if not np.isfinite(start_s):
            continue
        taken = own[shape] * gpus[job]
        at = max(0, int(np.searchsorted(room_s[:count], start_s, side="right")) - 1)
        for row in range(len(taken)):
            size = larger[shape, row]
            parts = free[single[row], at] - free[row, at]
            if size > 0 and gpus[job] > parts:  # larger blocks are broken up last
                taken[row] = -(-(gpus[job] - parts) // size) * size
        until_s = start_s + needs_s[job]
        short = lacking(left_s, spare, left_count, taken, start_s, until_s)
        if short.any():
            for other in range(len(begins_s)):
                if start_s < begins_s[other] < until_s and (counts[other] & short).any():
                    endangered[other] = blocks[job] = True
            if blocks[job]:
                continue
        if start_s <= soonest_s and needs_s[job] > long_s[job]:
            long_left -= gpus[job]
        left_count = subtract(left_s, spare, left_count, taken, start_s, until_s)
        count = subtract(room_s, free, count, taken, start_s, until_s)
    return blocks, endangered
