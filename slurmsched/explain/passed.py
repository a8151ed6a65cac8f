"""Who went before a waiting job because of our order, cycle by cycle, and its place by Slurm's priorities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Plan
from ..cluster.records.report_rows import JobKey
from ..cluster.state import View
from ..cluster.text.plural import count
from .queue_place import competing, contenders, in_force, overlap, slurms_order


@dataclass(frozen=True)
class Passed:
    """A job that started, and how many jobs had gone before it because of our order."""

    job_id: int
    first_submit_s: float
    jobs: int


class PassedBy:
    """Counts of the pending jobs since this process began. One thread observes, others read.

    A job passes another one if it starts while the other waits, could use the same nodes and stands before it by
    Slurm's own priorities, but behind it by the priorities that Slurm has, with our points. A job that is held, limited
    or not yet due is passed by none.
    """

    def __init__(self) -> None:
        self._counts: dict[JobKey, int] = {}
        self._before: View | None = None

    def observe(self, view: View, *, ordered: bool) -> list[Passed]:
        """Count who passed whom since the last cycle, and return the jobs that started; *ordered* where we order."""
        before, self._before = self._before, view if ordered else None
        counts = dict(self._counts)
        if before is not None:
            _count(counts, before, view)
        if not counts:
            return []
        waiting = set(_keys(view.pending))
        began = {key: many for key, many in counts.items() if key not in waiting}
        self._counts = {key: many for key, many in counts.items() if key in waiting}
        running = {key: row for row, key in enumerate(_keys(view.running)) if key in began}
        return [Passed(key[0], float(view.running.first_submit_s[row]), began[key]) for key, row in running.items()]

    def count(self, job_id: int, first_submit_s: float) -> int:
        """Return how many jobs passed a pending one."""
        return self._counts.get(_key(job_id, first_submit_s), 0)


def passed_words(view: View, plan: Plan, row: int, passed: int, replayed: str = "") -> str:
    """Say how many jobs passed a pending *row*, and where it stands by Slurm's priorities alone and in our order.

    *replayed* says where it would be by now, had the queue been Slurm's all the time.
    """
    rows = np.flatnonzero(competing(view, row)[0])
    own, ours = (
        int(np.flatnonzero(order == row)[0]) + 1
        for order in (rows[slurms_order(view, rows)], rows[in_force(view, plan, rows, "")])
    )
    place = f"By Slurm's own priorities alone it would stand in place {own} of {len(rows)}"
    place += f", in our order in place {ours}." if ours != own else ", as it does in our order."
    more = f" {replayed}." if replayed else ""
    if not passed:
        return place + more
    went = f"{count(passed, 'job')} behind it by these {'has' if passed == 1 else 'have'} started before it"
    return f"{place} Because of our order {went} since the daemon began.{more}"


def _count(counts: dict[JobKey, int], view: View, now: View) -> None:
    """Add who passed whom between the cycle of *view* and that of *now*."""
    if np.isin(now.running.job_id, view.running.job_id).all():
        return  # nothing started: the usual case, on queues of thousands
    starts = _starts(view, now)
    if not starts:
        return
    jobs, places = view.pending, {key: row for row, key in enumerate(_keys(now.pending))}
    still = np.array([places.get(key, -1) for key in _keys(jobs)], dtype=np.int64)
    waits = contenders(view) & (still >= 0)
    own = _ranks(slurms_order(view, np.arange(len(jobs))))
    tier, priority = view.tiers, now.pending.priority[still] if len(now.pending) else 0 * still
    shared, kind = overlap(view)
    passed = np.zeros(len(jobs), dtype=np.int64)
    for row, its_priority in starts:
        first = (tier == tier[row]) & (
            (priority < its_priority) | ((priority == its_priority) & (jobs.job_id > jobs.job_id[row]))
        )
        first |= tier < tier[row]
        behind = waits & (own < own[row]) & first & shared[kind, kind[row]]
        passed += behind & (jobs.reservation.codes == jobs.reservation.codes[row])
    keys = _keys(jobs)
    for row in np.flatnonzero(passed).tolist():
        counts[keys[row]] = counts.get(keys[row], 0) + int(passed[row])


def _starts(view: View, now: View) -> list[tuple[int, int]]:
    """Return of each job that runs *now* and did not its row among those pending in *view*, and Slurm's priority."""
    ran = set(_keys(view.running))
    rows = {key: row for row, key in enumerate(_keys(view.pending))}
    found = []
    running = zip(_keys(now.running), now.running.array_job_id.tolist(), now.running.priority.tolist(), strict=True)
    for key, array, priority in running:
        row = rows.get(key, rows.get((array, key[1])) if array > 0 else None)
        if key not in ran and row is not None:
            found.append((row, priority))
    return found


def _ranks(order: IntArray) -> IntArray:
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _keys(jobs: JobTable) -> list[JobKey]:
    return list(map(_key, jobs.job_id.tolist(), jobs.first_submit_s.tolist()))


def _key(job_id: int, first_submit_s: float) -> JobKey:
    return job_id, int(first_submit_s) if first_submit_s == first_submit_s else 0
