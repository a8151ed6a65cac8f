"""Promises: who is told that their deadline will be kept, who is refused, and who must run by when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.comment import read
from ..cluster.plan import Standing
from ..cluster.promises import PromiseState, PromiseTable, promise_table
from ..cluster.state import View
from ..policies.reserving import Asks, Room, latest_plan
from .doubts import announced
from .quotas import over_quota
from .rooms import Rooms
from .rules import SOFT_STEPS, DeadlineRules

MOST = 256
"""So many jobs from the top of the order are looked at for being in a promise's way."""

UNKNOWN = ("no history", "no forecast")
"""How a forecast's source begins that rests on no run at all."""

_TAKEN_AWAY = {
    Standing.OWNER_SAID_OFF: "its owner said slurmsched:off",
    Standing.HELD_BY_USER: "its owner holds it",
    Standing.NICE_SET: "it was given a nice value",
    Standing.PRIORITY_FIXED: "its priority was set by hand",
}


PLANS = 16
"""After so many plans in one decision the jobs that ask and have no answer wait for the next one."""

AFRESH = 32
"""So many promises are made beside a plan before all of them are planned anew."""


class _Offer:
    """The room for new promises, with a plan of those that were made."""

    def __init__(self, room: Room, held: Asks, now_s: float) -> None:
        self.plans = 0  #: how many were made; each costs as much as all that was promised
        self._room, self._held, self._now_s = room, held, now_s
        self._starts_s, self._left = latest_plan(room, held)

    def earliest(self, ask: Asks) -> float:
        """The earliest start beside the plan; NaN where there is none."""
        return self._left.earliest(ask.rows[0], int(ask.gpus[0]), float(ask.needs_s[0]), float(ask.since_s[0]))

    def takes(self, ask: Asks) -> bool:
        """Whether one more can be promised; if so it is one of those that were."""
        rows, gpus, since_s = ask.rows[0], int(ask.gpus[0]), float(ask.since_s[0])
        needs_s, due_s = float(ask.needs_s[0]), float(ask.due_s[0])
        if np.isnan(self._room.latest(rows, gpus, needs_s, since_s, due_s)):
            return False  # not even if nothing had been promised
        start_s = self._left.latest(rows, gpus, needs_s, since_s, due_s)
        beside = bool(np.isfinite(start_s))
        held = self._held.plus(replace(ask, since_s=np.array([self._now_s])))  # as it will count from now on
        if beside:
            self._left.take(rows, gpus, start_s, start_s + needs_s)
        if not beside or len(held) % AFRESH == 0:
            starts_s, left = latest_plan(self._room, self._held.plus(ask))
            self.plans += 1
            if not np.isnan(starts_s[np.append(np.isfinite(self._starts_s), True)]).any():
                self._held, self._starts_s, self._left = held, starts_s, left
                return True
        if beside:
            self._held, self._starts_s = held, np.append(self._starts_s, start_s)
        return beside


@dataclass(frozen=True, eq=False)
class Promised:
    """The promises after a decision, and what keeping them asks for now."""

    table: PromiseTable
    due: BoolArray  #: pending jobs that must start now
    laxity_s: FloatArray  #: of pending jobs with a promise: time to spare before they must start, else infinite
    kept: IntArray  #: those jobs
    due_s: FloatArray  #: by when each of those was promised to end
    rooms: Rooms | None = None  #: where there is anything to keep
    room: Room | None = None  #: what running jobs leave free
    left: Room | None = None  #: what the latest plan leaves free


def promise(
    view: View, standings: IntArray, rules: DeadlineRules, steers: bool, stops_s: FloatArray | None = None
) -> Promised:
    """Answer jobs that ask for a deadline and have no answer yet, and plan for all promises.

    Where that takes many plans, some wait for the next decision.

    Nothing is promised to jobs that we do not order; *steers* says whether we may order at all. No promise made before
    is given up here: new ones are made only beside them. Where *stops_s* says by when running jobs can have made room,
    plans count on it, and jobs are due early enough to ask for it.
    """
    count = len(view.pending)
    table = _withdrawn(view, standings, view.promises)
    new = _asking(view, standings, table)
    kept = _pending_rows(view, table)
    if not len(new) and not table.open.any():
        nobody = np.zeros(0, dtype=np.int64)
        return Promised(table, np.zeros(count, np.bool_), np.full(count, np.inf), nobody, nobody.astype(np.float64))
    rooms = Rooms(view, rules.margin, rules.lead_s, stops_s)
    room = rooms.open(np.concatenate([kept, new]))
    held = rooms.asks(kept, _due_s(view, table, kept), view.now_s)
    offer = _Offer(room.less(rules.reserve), held, view.now_s)
    for row in new[np.lexsort((view.pending.job_id[new], view.pending.first_submit_s[new]))].tolist():
        if offer.plans >= PLANS:
            break
        refused = _refused_outright(view, table, row, rules, steers, rooms)
        answer, ask = _answer(view, rooms, offer, row, rules, refused)
        table = table.joined(answer)
        if ask is not None:
            held, kept = held.plus(ask), np.append(kept, row)
    starts_s, left = latest_plan(room, held)
    table = announced(view, table, kept, starts_s, held, left, rules.lead_s)
    laxity_s = np.full(count, np.inf)
    laxity_s[kept] = np.where(np.isnan(starts_s), held.due_s - held.needs_s, starts_s) - view.now_s
    due = laxity_s <= rules.lead_s + rules.hold_s + (0.0 if stops_s is None else rules.stop_s)
    due[kept] |= np.isnan(starts_s)
    return Promised(_started_by(view, table, laxity_s), due, laxity_s, kept, held.due_s, rooms, room, left)


def in_the_way(view: View, promised: Promised, order: IntArray) -> tuple[IntArray, BoolArray]:
    """Those of the pending rows in *order* that would start soon and keep a promised job from its GPUs.

    Also which pending jobs they endanger. Jobs count one after the other, each as soon as there is room for it beside
    those before it; running jobs may end sooner than planned, so that it need not be now.
    """
    endangered = np.zeros(len(view.pending), dtype=np.bool_)
    waiting = np.flatnonzero(np.isfinite(promised.laxity_s))
    rooms, found = promised.rooms, []
    if rooms is None or promised.room is None or promised.left is None or not len(waiting):
        return order[:0], endangered
    room, left = promised.room.copy(), promised.left.copy()
    counts = rooms.asks(waiting, promised.laxity_s[waiting], view.now_s).rows
    for row in order[np.isinf(promised.laxity_s[order])][:MOST].tolist():
        gpus, needs_s = int(view.pending.gpus[row] * view.pending.tasks[row]), float(rooms.needs_s[row])
        own = rooms.own(row)
        start_s = room.earliest(own, gpus, needs_s, view.now_s) if gpus else np.nan
        if not np.isfinite(start_s):
            continue
        taken = rooms.taken(row, gpus, room.at(start_s))
        short = left.short(taken, start_s, start_s + needs_s)
        begins_s = view.now_s + promised.laxity_s[waiting]
        theirs = counts[:, short].any(axis=1) & (start_s < begins_s) & (begins_s < start_s + needs_s)
        if theirs.any():
            found.append(row)
            endangered[waiting[theirs]] = True
        else:
            left.lose(taken, start_s, start_s + needs_s)
            room.lose(taken, start_s, start_s + needs_s)
    return np.array(found, dtype=np.int64), endangered


def steps_of(
    comment: str, deadline_s: float, first_submit_s: float, usual: Sequence[tuple[float, float]] = SOFT_STEPS
) -> list[tuple[float, float]]:
    """Moments and what ending by them is worth, the deadline itself first (1.0); *usual* steps where it has none.

    A step in local time counts from the deadline as the clock on the wall does, without a change of its hour between.
    """
    wishes = read(comment)[0]
    steps = [(deadline_s, 1.0)]
    if wishes.deadline is None or not wishes.soft:
        return steps
    if not wishes.steps:
        ahead_s = deadline_s - first_submit_s
        return steps + [(first_submit_s + times * ahead_s, value) for value, times in usual]
    for step in wishes.steps:
        if step.by.since == wishes.deadline.since:
            steps.append((deadline_s + step.by.at_s - wishes.deadline.at_s, step.value))
        elif step.by.since == "submit":
            steps.append((first_submit_s + step.by.at_s, step.value))
        elif step.by.since == "epoch":
            steps.append((float(step.by.at_s), step.value))
    return steps


def _withdrawn(view: View, standings: IntArray, table: PromiseTable) -> PromiseTable:
    """Promises to jobs that somebody has taken out of our hands are withdrawn."""
    rows = {int(job): row for row, job in enumerate(view.pending.job_id.tolist())}
    states, settled_s, reasons = table.state.copy(), table.settled_s.copy(), list(table.reason)
    for place in np.flatnonzero(table.open).tolist():
        row = rows.get(int(table.job_id[place]))
        why = None if row is None else _TAKEN_AWAY.get(Standing(int(standings[row])))
        if why is not None:
            states[place], settled_s[place], reasons[place] = PromiseState.WITHDRAWN, view.now_s, why
    return replace(table, state=states, settled_s=settled_s, reason=Labels.of(reasons))


def _asking(view: View, standings: IntArray, table: PromiseTable) -> IntArray:
    """Pending rows that say a deadline and have no answer to just that."""
    jobs = view.pending
    asking = np.isfinite(jobs.deadline_s) & (standings == Standing.RANKED)
    answered = {
        (int(table.job_id[place]), round(float(table.deadline_s[place])), int(table.gpus[place]))
        for place in np.flatnonzero(table.state != PromiseState.WITHDRAWN).tolist()
    }
    rows = np.flatnonzero(asking).tolist()
    new = [
        row
        for row in rows
        if (int(jobs.job_id[row]), round(float(jobs.deadline_s[row])), int(jobs.gpus[row])) not in answered
    ]
    return np.array(new, dtype=np.int64)


def _pending_rows(view: View, table: PromiseTable) -> IntArray:
    promised = set(table.job_id[table.open].tolist())
    return np.flatnonzero([job in promised for job in view.pending.job_id.tolist()]).astype(np.int64)


def _due_s(view: View, table: PromiseTable, rows: IntArray) -> FloatArray:
    places = np.flatnonzero(table.open)
    until_s = dict(zip(table.job_id[places].tolist(), table.promised_s[places].tolist(), strict=True))
    return np.array([until_s[job] for job in view.pending.job_id[rows].tolist()], dtype=np.float64)


def _refused_outright(
    view: View, table: PromiseTable, row: int, rules: DeadlineRules, steers: bool, rooms: Rooms
) -> str:
    """Why nothing can be promised to a job whatever the plan says; empty where something may be."""
    jobs, forecast = view.pending, view.forecast
    if not steers:
        return "power.order is off, and without it no promise can be kept"
    if jobs.deadline_s[row] <= view.now_s:
        return "the deadline has passed"
    if jobs.tasks[row] > 1 or jobs.array_job_id[row]:
        return "it is an array; promises are made to single jobs"
    if jobs.gpus[row] <= 0:
        return "it asks for no GPU; promises are about GPUs"
    unknown = not np.isfinite(jobs.time_limit_s[row]) and forecast.source[row].startswith(UNKNOWN)
    if unknown or not np.isfinite(rooms.needs_s[row]):
        return "nothing is known about its runtime: there is no history of such jobs, and it has no time limit"
    if jobs.gpus[row] > rooms.most(row):
        return "it asks for more GPUs than the nodes that are up have for it"
    return over_quota(view, table, row, float(rooms.needs_s[row]), rules)


def _answer(
    view: View, rooms: Rooms, offer: _Offer, row: int, rules: DeadlineRules, refused: str
) -> tuple[PromiseTable, Asks | None]:
    """The answer to one job, and its ask where something was promised."""
    jobs, since_s = view.pending, view.now_s + rules.lead_s
    deadline_s, needs_s = float(jobs.deadline_s[row]), float(rooms.needs_s[row])
    ask = rooms.asks(np.array([row]), np.array([np.inf]), since_s)
    earliest_s = offer.earliest(ask) + needs_s
    answer: tuple[float, float] | None = None
    if not refused:
        steps = steps_of(jobs.comment[row], deadline_s, float(jobs.first_submit_s[row]), rules.soft_steps)
        for until_s, worth in steps:
            if offer.takes(replace(ask, due_s=np.array([until_s]))):
                answer = (until_s, worth)
                ask = replace(ask, due_s=np.array([until_s]), since_s=np.array([view.now_s]))
                break
        else:
            refused = "there are not enough GPUs in time beside what was promised before"
    until_s, worth = answer or (np.nan, 0.0)
    told = promise_table(
        1,
        job_id=jobs.job_id[[row]],
        first_submit_s=jobs.first_submit_s[[row]],
        asked_s=[view.now_s],
        user=[jobs.user[row]],
        account=[jobs.account[row]],
        gpus=jobs.gpus[[row]],
        deadline_s=[deadline_s],
        needs_s=[needs_s],
        state=[PromiseState.REFUSED if answer is None else PromiseState.OPEN],
        promised_s=[until_s],
        worth=[worth],
        earliest_s=[earliest_s],
        reason=[refused],
    )
    return told, None if answer is None else ask


def _started_by(view: View, table: PromiseTable, laxity_s: FloatArray) -> PromiseTable:
    """The table with the moments by which waiting jobs must start, in whole seconds."""
    rows = {int(job): row for row, job in enumerate(view.pending.job_id.tolist())}
    start_by_s = np.full(len(table), np.nan)
    for place in np.flatnonzero(table.open).tolist():
        row = rows.get(int(table.job_id[place]))
        if row is not None:
            start_by_s[place] = np.floor(view.now_s + laxity_s[row])
    return replace(table, start_by_s=start_by_s)
