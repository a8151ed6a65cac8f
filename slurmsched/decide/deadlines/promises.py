"""Promises: answer deadline requests, and plan the latest start of each promised job."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.plan import Standing
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lease_terms import LeaseTerms
from ...policies.deadlines.reservations import Room, latest_plan
from ..rules import DeadlineRules
from .deadline_admission import PromiseAdmission
from .gpu_availability import Footprint, GpuAvailability
from .lease_offer import LeasedJobs, LeaseOffer, last_refusal_s
from .offers import Offer
from .promise_risk import announced
from .quotas import Quotas

MOST = 256
"""Number of jobs from the top of the order that are checked for blocking a promise."""

_TAKEN_AWAY = {
    Standing.OWNER_SAID_OFF: "its owner said slurmsched:off",
    Standing.HELD_BY_USER: "its owner holds it",
    Standing.NICE_SET: "it was given a nice value",
    Standing.PRIORITY_FIXED: "its priority was set by hand",
}


@dataclass(frozen=True, eq=False)
class Promised:
    """The promises after a decision, and the requirements of keeping them."""

    table: PromiseTable
    due: BoolArray  #: pending jobs that must start now
    laxity_s: FloatArray  #: time until a promised pending job must start, infinite for others
    rows: IntArray  #: pending jobs with a promise
    due_s: FloatArray  #: the promised end of each of *rows*
    availability: GpuAvailability | None = None  #: None if there is no promise
    room: Room | None = None  #: GPUs left free by running jobs
    left: Room | None = None  #: GPUs left free by the latest plan


def promise(
    view: View, standings: IntArray, rules: DeadlineRules, steers: bool, stops_s: FloatArray | None = None
) -> Promised:
    """Answer new deadline requests, and plan all promises.

    Jobs that we do not order get no promise; *steers* tells whether we may order at all. Earlier promises are never
    given up here: new ones must fit beside them. If *stops_s* is given, the times by which running jobs can make room,
    plans rely on them, and jobs become due early enough to send the stop requests.
    """
    count = len(view.pending)
    table = _withdrawn(view, standings, view.promises)
    new = _asking(view, standings, table)
    if rules.leases is not None:
        return _of(_in_leases(view, table, new, rules, rules.leases, steers), count)
    rows = _pending_rows(view, table)
    if not len(new) and not table.open.any():
        return _of(table, count)
    availability = GpuAvailability(view, rules.margin, rules.lead_s, stops_s)
    room = availability.open(np.concatenate([rows, new]))
    held = availability.requests(rows, _due_s(view, table, rows), view.now_s)
    if len(new):
        offer, quotas = (
            Offer(room, rules.reserve, held, view.now_s),
            Quotas(view, table, rules, availability, rows, held),
        )
        answers, promised = PromiseAdmission(view, rules, availability, offer, quotas).answers(new, steers)
        table = table.joined(answers)
        rows = np.concatenate([rows, promised])
        held = availability.requests(rows, _due_s(view, table, rows), view.now_s)
    starts_s, left = latest_plan(room, held)
    table = announced(view, table, rows, starts_s, held, left, rules.lead_s)
    laxity_s = np.full(count, np.inf)
    laxity_s[rows] = np.where(np.isnan(starts_s), held.due_s - held.needs_s, starts_s) - view.now_s
    due = laxity_s <= rules.lead_s + rules.hold_s + (0.0 if stops_s is None else rules.stop_s)
    due[rows] |= np.isnan(starts_s)
    return Promised(_started_by(view, table, laxity_s), due, laxity_s, rows, held.due_s, availability, room, left)


def _of(table: PromiseTable, count: int) -> Promised:
    """Return promises that ask nothing of the *count* pending jobs now."""
    no_rows = np.zeros(0, dtype=np.int64)
    return Promised(table, np.zeros(count, np.bool_), np.full(count, np.inf), no_rows, no_rows.astype(np.float64))


def _in_leases(
    view: View, table: PromiseTable, new: IntArray, rules: DeadlineRules, terms: LeaseTerms, steers: bool
) -> PromiseTable:
    """Answer the *new* requests beside the lease schedule of all promises, and note those at risk."""
    if len(new):
        leased = LeasedJobs(view, table, rules, terms)
        offer = LeaseOffer(leased.schedule, leased.held(), terms, last_refusal_s(table))
        availability, rows = GpuAvailability(view, rules.margin, rules.lead_s), _pending_rows(view, table)
        availability.open(np.concatenate([rows, new]))
        held = availability.requests(rows, _due_s(view, table, rows), view.now_s)
        quotas = Quotas(view, table, rules, availability, rows, held)
        table = table.joined(PromiseAdmission(view, rules, availability, offer, quotas).answers(new, steers)[0])
    return LeasedJobs(view, table, rules, terms).announced() if table.open.any() else table


def blocking_jobs(view: View, promised: Promised, order: IntArray) -> tuple[IntArray, BoolArray]:
    """Select pending rows in *order* that would block a promised job from its GPUs, and the jobs they endanger.

    Jobs are placed one after the other, each at its earliest start beside those before it. That start may lie in the
    future, since running jobs may end sooner than planned.
    """
    endangered = np.zeros(len(view.pending), dtype=np.bool_)
    waiting = np.flatnonzero(np.isfinite(promised.laxity_s))
    availability, blocking = promised.availability, []
    if availability is None or promised.room is None or promised.left is None or not len(waiting):
        return order[:0], endangered
    room, left = promised.room.copy(), promised.left.copy()
    counts = availability.requests(waiting, promised.laxity_s[waiting], view.now_s).rows
    begins_s = view.now_s + promised.laxity_s[waiting]
    rows = order[np.isinf(promised.laxity_s[order])][:MOST]
    columns = (rows, (view.pending.gpus * view.pending.tasks)[rows], availability.needs_s[rows])
    of_row = zip(*(column.tolist() for column in columns), availability.footprints(rows), strict=True)
    earlier: defaultdict[tuple[Footprint, int], _Starts] = defaultdict(_Starts)
    for row, gpus, needs_s, footprint in of_row:
        # Room only becomes less: a job starts no sooner than one before it that took as much for no longer.
        alike = earlier[footprint, gpus]
        since_s = alike.bound(needs_s, view.now_s)
        start_s = room.earliest(footprint.own, gpus, needs_s, since_s) if gpus and since_s < math.inf else math.inf
        alike.add(needs_s, start_s if start_s == start_s else math.inf)
        if not math.isfinite(start_s):
            continue
        taken = footprint.taken(gpus, room.at(start_s))
        short = left.short(taken, start_s, start_s + needs_s)
        if short.any():
            theirs = counts[:, short].any(axis=1) & (start_s < begins_s) & (begins_s < start_s + needs_s)
            if theirs.any():
                blocking.append(row)
                endangered[waiting[theirs]] = True
                continue
        left.lose(taken, start_s, start_s + needs_s)
        room.lose(taken, start_s, start_s + needs_s)
    return np.array(blocking, dtype=np.int64), endangered


class _Starts:
    """Earliest starts of jobs with equal GPUs, by their runtimes."""

    def __init__(self) -> None:
        self._lengths_s: list[float] = []  # rising
        self._starts_s: list[float] = []

    def add(self, length_s: float, start_s: float) -> None:
        place = bisect_right(self._lengths_s, length_s)
        self._lengths_s.insert(place, length_s)
        self._starts_s.insert(place, start_s)

    def bound(self, length_s: float, now_s: float) -> float:
        """Return the latest start of a job that was no longer than *length_s*; *now_s* without one."""
        return max(self._starts_s[: bisect_right(self._lengths_s, length_s)], default=now_s)


def _withdrawn(view: View, standings: IntArray, table: PromiseTable) -> PromiseTable:
    """Withdraw promises to jobs that a user or an admin has excluded from our order."""
    places = np.flatnonzero(table.open)
    rows = _rows_of(view.pending, table.job_id[places])
    standing_of = standings[rows[rows >= 0]].tolist()
    whys = zip(places[rows >= 0].tolist(), (_TAKEN_AWAY.get(Standing(value)) for value in standing_of), strict=True)
    withdrawn = {place: why for place, why in whys if why is not None}
    if not withdrawn:
        return table
    states, settled_s, reasons = table.state.copy(), table.settled_s.copy(), list(table.reason)
    for place, why in withdrawn.items():
        states[place], settled_s[place], reasons[place] = PromiseState.WITHDRAWN, view.now_s, why
    return replace(table, state=states, settled_s=settled_s, reason=Labels.of(reasons))


def _asking(view: View, standings: IntArray, table: PromiseTable) -> IntArray:
    """Return pending rows whose deadline and GPUs have no answer yet."""
    jobs = view.pending
    asking = np.isfinite(jobs.deadline_s) & (standings == Standing.RANKED)
    columns = (table.job_id, np.rint(table.deadline_s), table.gpus)
    answered = set(zip(*(column[table.state != PromiseState.WITHDRAWN].tolist() for column in columns), strict=True))
    rows = np.flatnonzero(asking)
    requests = zip(*(c[rows].tolist() for c in (jobs.job_id, np.rint(jobs.deadline_s), jobs.gpus)), strict=True)
    return rows[[request not in answered for request in requests]]


def _pending_rows(view: View, table: PromiseTable) -> IntArray:
    return np.flatnonzero(np.isin(view.pending.job_id, table.job_id[table.open]))


def _rows_of(jobs: JobTable, job_ids: IntArray) -> IntArray:
    """Return the row of each of *job_ids* in *jobs*, -1 for one that is not there."""
    if not len(jobs):
        return np.full(len(job_ids), -1, dtype=np.int64)
    order = np.argsort(jobs.job_id, kind="stable")
    rows = order[np.maximum(np.searchsorted(jobs.job_id[order], job_ids, side="right") - 1, 0)]
    return np.where(jobs.job_id[rows] == job_ids, rows, -1)


def _due_s(view: View, table: PromiseTable, rows: IntArray) -> FloatArray:
    places = np.flatnonzero(table.open)
    until_s = dict(zip(table.job_id[places].tolist(), table.promised_s[places].tolist(), strict=True))
    return np.array([until_s[job] for job in view.pending.job_id[rows].tolist()], dtype=np.float64)


def _started_by(view: View, table: PromiseTable, laxity_s: FloatArray) -> PromiseTable:
    """Return the table with the latest start of each pending job, in whole seconds."""
    places, start_by_s = np.flatnonzero(table.open), np.full(len(table), np.nan)
    rows = _rows_of(view.pending, table.job_id[places])
    start_by_s[places[rows >= 0]] = np.floor(view.now_s + laxity_s[rows[rows >= 0]])
    return replace(table, start_by_s=start_by_s)
