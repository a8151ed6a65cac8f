"""Promises: answer deadline requests, and plan the latest start of each promised job."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels, among, places_of
from ...cluster.plan import Standing
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lease_schedule import LeaseSchedule, SchedulePlan
from ...policies.deadlines.lease_terms import LeaseTerms
from ...policies.deadlines.promised_ends import next_step_s, planned_before, with_plan
from ...policies.deadlines.remaining_work import remaining_work
from ...policies.deadlines.reservations import DeadlineRequests, Room
from ...policies.deadlines.solver_request import SolverRequest, request_of
from ...policies.deadlines.stop_costs import resume_costs_s, stop_costs_s
from ...policies.deadlines.value_steps import steps_of
from ..rules import DeadlineRules
from .deadline_admission import PromiseAdmission, in_turn
from .foreseen_requests import ForeseenRequests
from .gpu_availability import GpuAvailability, PooledGpus
from .iteration_runtime import ran_s
from .leased_jobs import LeasedJobs
from .offers import FORESEEN, NO_ROOM, Offer
from .promise_risk import announced
from .quotas import Quotas
from .stops import Stops

REPEATED = 16
"""Maximum number of refused requests that one decision answers again."""

EFFORT = 5_000
"""Jobs in leases that one decision plans for new requests of jobs in leases; the other requests wait for their turn.

Each is planned beside all that came before: thousands at once would take a minute.
"""

SOLVED = 256
"""Maximum number of refused jobs in one problem for the solver."""

OVERRUN_STEP = 1.25
"""A promised job that has run longer than counted counts as a run of so many times that: few changes are recorded."""

SAFE = 0.999
"""The share of such runs that end within the runtime that counts for a request answered at its last moment.

Nothing is left then for a longer one: with the share of other promises, one in ten of these would be broken."""

_NEW, _REFUSED, _TRIED_AGAIN, _MADE = range(4)

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
    tight: BoolArray  #: those of them for which other jobs with a promise stop
    laxity_s: FloatArray  #: time until a promised pending job must start, infinite for others
    late: BoolArray  #: pending jobs with a promise that no plan keeps
    rows: IntArray  #: pending jobs with a promise
    due_s: FloatArray  #: the promised end of each of *rows*
    spare: BoolArray  #: running jobs with a promise that has time for a stop now
    availability: GpuAvailability | None = None  #: None if there is no promise
    room: Room | None = None  #: GPUs left free by running jobs
    left: Room | None = None  #: GPUs left free by the latest plan
    schedule: PromiseSchedule | None = None
    solved: bool = False  #: the plan follows the solver

    def breaks(self, rows: IntArray, rules: DeadlineRules, waiting: IntArray) -> bool:
        """Return whether a promise may be broken if these running *rows* stopped now for the jobs *waiting*."""
        if self.schedule is None or self.availability is None:
            return False
        return self.schedule.breaks(rows, rules, waiting, self.availability.startup_s[waiting])


@dataclass(frozen=True, eq=False)
class PromiseSchedule:
    """The schedule of the promises, and the jobs that it places."""

    leases: LeaseSchedule
    held: DeadlineRequests
    running: IntArray  #: the running row of each, -1 for a pending job
    waiting: IntArray  #: the pending row of each, -1 for a running job

    def breaks(self, stopped: IntArray, rules: DeadlineRules, waiting: IntArray, startup_s: FloatArray) -> bool:
        """Return whether no plan keeps the promises of the running rows *stopped* now, or fewer of the others.

        So it is where none keeps those of the rows *waiting* for the stops, without what is counted for their start.
        """
        theirs = np.isin(self.running, stopped)
        if not theirs.any():
            return False
        away_s = np.where(theirs, _away_s(rules), 0.0)
        starts_s = dict(zip(waiting.tolist(), startup_s.tolist(), strict=True))
        less_s = away_s + np.array([starts_s.get(row, 0.0) for row in self.waiting.tolist()])
        later = replace(self.held, since_s=self.held.since_s + away_s, needs_s=self.held.needs_s - less_s)
        late, before = self._late(later), self._late(self.held)
        served = theirs | np.isin(self.waiting, waiting)
        return bool((late & served).any() or late.sum() > before.sum())

    def _late(self, held: DeadlineRequests) -> BoolArray:
        return _without_place(self.leases.latest(held))


def _room_made_s(rules: DeadlineRules) -> float:
    """Return the time in which running jobs make room: any of them may just have begun its lease."""
    return rules.promised_lease_s + rules.stop_s


def _away_s(rules: DeadlineRules) -> float:
    """Return the time from the stop of a job with a promise to its next start, with all its waits for Slurm."""
    return rules.stop_s + 2 * rules.lead_s


def promise(
    view: View, standings: IntArray, rules: DeadlineRules, steers: bool, stopping: Stops | None = None
) -> Promised:
    """Answer new deadline requests, and plan all promises.

    Jobs that we do not order get no promise; *steers* tells whether we may order at all. Earlier promises are never
    given up here: new ones must fit beside them. If *stopping* is given, plans rely on the jobs that can make room, and
    jobs become due early enough to send the stop requests.
    """
    table = _with_overruns(view, _withdrawn(view, standings, view.promises))
    new, first = _asking(view, standings, table, rules, stopping)
    if rules.leases is not None:
        table = _in_leases(view, table, new, first, rules, rules.leases, steers)
        return replace(_of(table, view), solved=_follows_solver(view, table, rules, rules.leases))
    if not len(new) and not table.open.any():
        return _of(table, view)
    availability = _availability(view, table, rules, stopping)
    placed, rows = _placed_rows(view, table, availability), _pending_rows(view, table)
    room = availability.open(np.concatenate([placed, new]))
    schedule = LeaseSchedule(view.now_s, rules.terms.beat_s, room, view.solved, planned_before(table))
    if len(new):
        held = _held(view, table, rules, availability, placed)
        starting = _without_place(schedule.latest(held)) & _in_time(view, rules, availability, placed, held)
        foreseen = _foreseen(view, table, rules, room, availability, new)
        offer = Offer(schedule.beside(held.take(starting)), rules.terms, held.take(~starting), foreseen)
        waiting = availability.requests(rows, _due_s(view, table, rows), view.now_s)
        quotas = Quotas(view, table, rules, availability, rows, waiting)
        answers, promised = PromiseAdmission(view, rules, availability, offer, quotas).answers(new, steers)
        table = table.joined(_news(view, answers, new[first]))
        placed = np.concatenate([promised, placed])
    held = _held(view, table, rules, availability, placed)
    return _planned(view, table, rules, availability, schedule, held, placed, stopping)


def _planned(
    view: View,
    table: PromiseTable,
    rules: DeadlineRules,
    availability: GpuAvailability,
    leases: LeaseSchedule,
    held: DeadlineRequests,
    placed: IntArray,
    stopping: Stops | None,
) -> Promised:
    """Plan the promises *held* by the jobs *placed*, pending ones first."""
    count, now_s, plan = len(view.pending), view.now_s, leases.latest(held)
    waits, latest_s, late = placed < count, held.due_s - held.needs_s, _without_place(plan)
    starts_s = np.where(held.stoppable, latest_s, plan.starts_s)
    # A job that runs in parts is in doubt once less than the time of a stop is left, besides that of its start.
    near = latest_s + rules.lead_s + rules.hold_s - now_s <= rules.stop_s
    starts_s[late & (near | ~held.stoppable)] = np.nan
    rows, needed = placed[waits], _needed(leases, held, plan, rules)
    laxity_s, (due, unplanned) = np.full(count, np.inf), np.zeros((2, count), dtype=np.bool_)
    unplanned[rows] = (late & ~_in_time(view, rules, availability, placed, held))[waits]
    laxity_s[rows] = np.where(np.isnan(starts_s), latest_s, starts_s)[waits] - now_s
    tight = laxity_s <= rules.lead_s + rules.hold_s + (0.0 if stopping is None else _room_made_s(rules))
    due |= tight
    due[rows] |= (needed & (held.stoppable | late | (rules.slack_s > 0)))[waits]
    spare = np.zeros(len(view.running), dtype=np.bool_)
    spare[placed[~waits] - count] = ~(late | (plan.first > 0))[~waits]
    left, schedule = (
        plan.left(),
        PromiseSchedule(leases, held, np.where(waits, -1, placed - count), np.where(waits, placed, -1)),
    )
    table = announced(view, table, availability, rows, starts_s[waits], held.take(waits), left, rules.lead_s)
    table = _started_by(view, with_plan(table, held.job_id, plan.starts_s), laxity_s)
    room, due_s = leases.room, held.due_s[waits]
    more = (availability, room, left, schedule, plan.solved)
    return Promised(table, due, tight, laxity_s, unplanned, rows, due_s, spare, *more)


def _without_place(plan: SchedulePlan) -> BoolArray:
    """Select the jobs that end too late in *plan*."""
    return np.asarray((plan.late > 0) | (plan.hopeless > 0))


def _in_time(
    view: View, rules: DeadlineRules, availability: GpuAvailability, placed: IntArray, held: DeadlineRequests
) -> BoolArray:
    """Select the jobs *placed* that end in time if they start within what is counted for their start."""
    latest_s = held.due_s - held.needs_s + rules.lead_s + rules.hold_s
    return np.asarray(availability.stoppable[placed] & (latest_s > view.now_s))


def _needed(leases: LeaseSchedule, held: DeadlineRequests, plan: SchedulePlan, rules: DeadlineRules) -> BoolArray:
    """Select the jobs that must run now, in *plan* or in one with the slack of the rules."""
    plans = [plan, leases.latest(held, rules.slack_s)] if rules.slack_s else [plan]
    needed: BoolArray = np.logical_or.reduce([(one.first > 0) | (one.late > 0) | (one.hopeless > 0) for one in plans])
    return needed


def _availability(view: View, table: PromiseTable, rules: DeadlineRules, stopping: Stops | None) -> GpuAvailability:
    """Return the GPUs over time, as running jobs end or can make room. Without time for a stop they run on."""
    if stopping is None:
        return GpuAvailability(view, rules.margin, rules.lead_s)
    stoppable = np.concatenate([stopping.pending, np.isfinite(stopping.by_s)])
    startup_s = rules.lead_s + rules.hold_s
    restart_s = resume_costs_s(view.pending.followed_by(view.running), rules)
    ends_by_s = np.full(len(view.running), np.inf)
    placed = np.flatnonzero(stopping.placed)
    ends_by_s[placed] = _due_s(view, table, len(view.pending) + placed)
    # After a stop there must be time to make room for the job again, as for any other.
    ends_by_s -= stop_costs_s(view.running, rules, _away_s(rules)) + 2 * startup_s + _room_made_s(rules)
    terms = (view, rules.margin, rules.lead_s)
    stops_s = np.where(stopping.placed, -np.inf, stopping.by_s)
    return GpuAvailability(*terms, stops_s, stoppable, restart_s, startup_s, ends_by_s)


def _placed_rows(view: View, table: PromiseTable, availability: GpuAvailability) -> IntArray:
    """Return the jobs with a promise that the schedule places, by number: those that wait, or have time for a stop."""
    return np.concatenate([_pending_rows(view, table), len(view.pending) + np.flatnonzero(availability.moved)])


def _held(
    view: View, table: PromiseTable, rules: DeadlineRules, availability: GpuAvailability, placed: IntArray
) -> DeadlineRequests:
    """Return the requests of the jobs *placed* by the schedule: with the cost of a stop of those that run."""
    held = availability.requests(placed, _due_s(view, table, placed), view.now_s)
    jobs = view.pending.followed_by(view.running).take(placed)
    cost_s = np.where(placed >= len(view.pending), stop_costs_s(jobs, rules, _away_s(rules)), 0.0)
    return replace(held, needs_s=held.needs_s + cost_s)


def _of(table: PromiseTable, view: View) -> Promised:
    """Return promises that ask nothing of the jobs of *view* now."""
    no_rows, nobody = np.zeros(0, dtype=np.int64), np.zeros(len(view.running), np.bool_)
    count, no_times = len(view.pending), np.zeros(0, dtype=np.float64)
    no_jobs = np.zeros(count, np.bool_)
    return Promised(table, no_jobs, no_jobs, np.full(count, np.inf), no_jobs, no_rows, no_times, nobody)


def _in_leases(
    view: View,
    table: PromiseTable,
    new: IntArray,
    first: BoolArray,
    rules: DeadlineRules,
    terms: LeaseTerms,
    steers: bool,
) -> PromiseTable:
    """Answer the *new* requests beside the lease schedule of all promises, and note those at risk."""
    if len(new):
        leased = LeasedJobs(view, table, rules, terms)
        availability, rows = PooledGpus(view, rules.margin, rules.lead_s, terms), _pending_rows(view, table)
        foreseen = _foreseen(view, table, rules, leased.schedule.room, availability, new)
        offer = Offer(leased.schedule, terms, leased.held(), foreseen)
        again = new[~first]
        availability.request_within(again[_at_last_moments(view, again, rules)], SAFE)
        availability.open(np.concatenate([rows, new]))
        held = availability.requests(rows, _due_s(view, table, rows), view.now_s)
        quotas = Quotas(view, table, rules, availability, rows, held)
        answers = PromiseAdmission(view, rules, availability, offer, quotas).answers(new, steers)[0]
        table = table.joined(_news(view, answers, new[first]))
    return LeasedJobs(view, table, rules, terms).announced() if table.open.any() else table


def _follows_solver(view: View, table: PromiseTable, rules: DeadlineRules, terms: LeaseTerms) -> bool:
    """Return True if the lease schedule of all promises follows the solver."""
    if not len(view.solved) or not table.open.any():
        return False
    leased = LeasedJobs(view, table, rules, terms)
    held = leased.held()
    return leased.schedule.reserved(held.take(~held.stoppable), 0.0, leased.schedule.room).solved


def solver_request(view: View, rules: DeadlineRules, stopping: Stops | None) -> SolverRequest | None:
    """Return the promises of a view and its refused jobs that cannot be stopped as a problem for the solver.

    None where every promise has a place and no such job was refused for want of GPUs.
    """
    table, rows = view.promises, _refused_rows(view, view.promises)
    steps = [steps_of(view.pending, row, rules.soft_steps) for row in rows.tolist()]
    due_s = np.array([max(moment_s for moment_s, _ in one) for one in steps], dtype=np.float64)
    if rules.leases is not None:
        leased = LeasedJobs(view, table, rules, rules.leases)
        schedule, held, refused = leased.schedule, leased.held(), leased.pending(rows, due_s)
    elif not len(rows) and not table.open.any():
        return None
    else:
        availability = _availability(view, table, rules, stopping)
        placed = _placed_rows(view, table, availability)
        room = availability.open(np.concatenate([placed, rows]))
        schedule = LeaseSchedule(view.now_s, rules.terms.beat_s, room, view.solved, planned_before(table))
        held = _held(view, table, rules, availability, placed)
        refused = availability.requests(rows, due_s, view.now_s)
    whole = ~refused.stoppable
    schedule = replace(schedule, room=schedule.room.less(rules.terms.reserve))
    wanted = [one for one, fits in zip(steps, whole.tolist(), strict=True) if fits]
    return request_of(schedule, held, refused.take(whole), wanted, rules.lead_s + rules.hold_s)


def _refused_rows(view: View, table: PromiseTable) -> IntArray:
    """Return the pending rows of at most SOLVED jobs that were refused for want of GPUs, the first ones that asked."""
    wanted = table.reason.map([reason == NO_ROOM for reason in table.reason.names], np.bool_)
    refused = table.job_id[(table.state == PromiseState.REFUSED) & wanted]
    rows = np.flatnonzero(among(view.pending.job_id, refused) & (view.pending.deadline_s > view.now_s))
    return np.setdiff1d(rows, _pending_rows(view, table))[:SOLVED]


def _withdrawn(view: View, standings: IntArray, table: PromiseTable) -> PromiseTable:
    """Withdraw promises to jobs that a user or an admin has excluded from our order."""
    places = np.flatnonzero(table.open)
    rows = places_of(table.job_id[places], view.pending.job_id)
    taken_away = (rows >= 0) & np.isin(standings[rows], list(_TAKEN_AWAY)) if len(standings) else rows >= 0
    if not taken_away.any():
        return table
    standing_of = map(Standing, standings[rows[taken_away]].tolist())
    withdrawn = dict(zip(places[taken_away].tolist(), map(_TAKEN_AWAY.__getitem__, standing_of), strict=True))
    states, settled_s, reasons = table.state.copy(), table.settled_s.copy(), list(table.reason)
    for place, why in withdrawn.items():
        states[place], settled_s[place], reasons[place] = PromiseState.WITHDRAWN, view.now_s, why
    return replace(table, state=states, settled_s=settled_s, reason=Labels.of(reasons))


def _with_overruns(view: View, table: PromiseTable) -> PromiseTable:
    """Return the table with more time for promised jobs that have run longer than counted, in a few steps for each."""
    rows = places_of(np.where(table.open, table.job_id, -1), view.running.job_id)
    past_s = np.where(rows >= 0, ran_s(view)[rows], np.nan) if len(view.running) else np.full(len(table), np.nan)
    over = past_s > table.needs_s
    if not over.any():
        return table
    return replace(table, needs_s=np.where(over, np.ceil(OVERRUN_STEP * past_s), table.needs_s))


def _asking(
    view: View, standings: IntArray, table: PromiseTable, rules: DeadlineRules, stopping: Stops | None
) -> tuple[IntArray, BoolArray]:
    """Return pending rows whose request is answered now, and which of them ask for the first time.

    The others were refused, and are answered again every ``again_s``, at their last moments, or while the solver has a
    start for them. Beside Slurm, new requests beyond EFFORT wait for the next decisions.
    """
    jobs = view.pending
    rows = np.flatnonzero(np.isfinite(jobs.deadline_s) & (standings == Standing.RANKED) & rules.answers)
    counts = among(table.job_id, jobs.job_id[rows]) & (table.state != PromiseState.WITHDRAWN)
    columns = (table.job_id, np.rint(table.deadline_s), table.gpus)
    requests = zip(*(column[counts].tolist() for column in columns), strict=True)
    answers = np.where(
        _again(table, view, rules), _TRIED_AGAIN, np.where(table.state == PromiseState.REFUSED, _REFUSED, _MADE)
    )
    answered = dict(zip(requests, answers[counts].tolist(), strict=True))
    mine = zip(*(c[rows].tolist() for c in (jobs.job_id, np.rint(jobs.deadline_s), jobs.gpus)), strict=True)
    answer = np.array([answered.get(request, _NEW) for request in mine], dtype=np.int64)
    first, refused = rows[answer == _NEW], rows[answer == _REFUSED]
    repeated = np.union1d(rows[answer == _TRIED_AGAIN], refused[_at_last_moments(view, refused, rules)])
    if rules.leases is None and stopping is not None:
        first = _whose_turn(view, table, first, stopping)
    repeated = np.roll(repeated, -int(view.now_s) % max(len(repeated), 1))[:REPEATED]  # other ones each time
    every = np.concatenate([first, repeated])
    return every, np.arange(len(every)) < len(first)


def _whose_turn(view: View, table: PromiseTable, rows: IntArray, stopping: Stops) -> IntArray:
    """Return those of the pending *rows* that are answered now, users in turn, as far as EFFORT reaches; at least one.

    What one costs is the number of jobs in leases that are planned with it.
    """
    jobs, held = view.pending, _pending_rows(view, table)
    rows = rows[np.lexsort((jobs.job_id[rows], jobs.first_submit_s[rows]))]
    rows = rows[in_turn([jobs.user[row] for row in rows.tolist()])]
    in_leases = stopping.pending[rows]
    planned = int(stopping.pending[held].sum() + stopping.placed.sum()) + np.cumsum(in_leases)
    within = np.cumsum(np.where(in_leases, planned, 0)) <= EFFORT
    within[:1] = True
    return np.sort(rows[within])


def _at_last_moments(view: View, rows: IntArray, rules: DeadlineRules) -> BoolArray:
    """Select those of the pending *rows* that must start within ``last_s`` to make a step of their deadline."""
    if not len(rows) or not rules.terms.last_s:
        return np.zeros(len(rows), dtype=np.bool_)
    jobs = view.pending.take(rows)
    work = remaining_work(jobs, view.forecast.take(rows), view.now_s, resume_costs_s(jobs, rules.terms))
    needs_s = work.within_s(SAFE) + rules.lead_s + (0.0 if rules.leases is not None else rules.hold_s)
    return np.asarray(next_step_s(view.now_s, jobs, needs_s) - view.now_s - needs_s <= rules.terms.last_s)


def _again(table: PromiseTable, view: View, rules: DeadlineRules) -> BoolArray:
    """Select refused requests that are answered again now: for ``hold_s``, two cycles, after each ``again_s``.

    So are those for which the solver has a start.
    """
    refused, waited_s = table.state == PromiseState.REFUSED, view.now_s - table.asked_s
    due = among(table.job_id, view.solved.job_id)
    if rules.again_s:
        due |= (waited_s >= rules.again_s) & (waited_s % rules.again_s < max(rules.hold_s, 1.0))
    return np.asarray(refused & due)


def _foreseen(
    view: View, table: PromiseTable, rules: DeadlineRules, room: Room, availability: GpuAvailability, new: IntArray
) -> ForeseenRequests:
    """Return the requests that are to be expected, by those in *table*, for the pending rows *new*."""
    gpus, wants = int(room.free.max(initial=0)), (NO_ROOM, FORESEEN)
    confined = frozenset(view.pending.job_id[new[availability.confined(new)]].tolist())
    quota = rules.user_share, rules.exempt
    return ForeseenRequests(table, gpus, view.now_s, rules.terms.memory_s, wants, *quota, confined)


def _news(view: View, answers: PromiseTable, first: IntArray) -> PromiseTable:
    """Leave out the refusals of jobs that were refused before; *first* are the pending rows that had no answer."""
    return answers.take(answers.open | among(answers.job_id, view.pending.job_id[first]))


def _pending_rows(view: View, table: PromiseTable) -> IntArray:
    return np.flatnonzero(among(view.pending.job_id, table.job_id[table.open]))


def _due_s(view: View, table: PromiseTable, rows: IntArray) -> FloatArray:
    places = np.flatnonzero(table.open)
    job_id = np.concatenate([view.pending.job_id, view.running.job_id])[rows]
    return table.promised_s[places[places_of(job_id, table.job_id[places])]]


def _started_by(view: View, table: PromiseTable, laxity_s: FloatArray) -> PromiseTable:
    """Return the table with the latest start of each pending job, in whole seconds."""
    places, start_by_s = np.flatnonzero(table.open), np.full(len(table), np.nan)
    rows = places_of(table.job_id[places], view.pending.job_id)
    start_by_s[places[rows >= 0]] = np.floor(view.now_s + laxity_s[rows[rows >= 0]])
    return replace(table, start_by_s=start_by_s)
