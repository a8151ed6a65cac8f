"""The selection of Chronus: promised jobs run in leases when the schedule needs them, and the others beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState, JobTable
from ...cluster.state import View
from ..contract import SELECTIONS, Selection
from ..deadlines.lease_schedule import (
    LeaseSchedule,
    SchedulePlan,
    can_be_stopped,
    lease_requests,
    placed_by_plans,
    steady_room,
)
from ..deadlines.lease_terms import GONE, LeaseTerms
from ..deadlines.promised_ends import promised_ends
from ..deadlines.remaining_work import remaining_work
from ..deadlines.stop_costs import resume_costs_s
from ..deadlines.turns_ahead import TurnsAhead
from ..parameters import defaults_of, of_numbers
from .free_nodes import FreeNodes
from .preemption import no_spare, run_best

MOST = 256
"""Number of pending jobs that are checked for being in the way of promises; the others wait."""


class LeaseClaims(NamedTuple):
    """The claims of running and pending jobs on the GPUs, by number."""

    firm: BoolArray  #: runs, and cannot be stopped
    stays: BoolArray  #: runs, and no lease of it ends now
    must: BoolArray  #: would be late otherwise
    urgent: BoolArray  #: runs now by the schedule with time to spare, or holds a lease for a promise
    held: BoolArray  #: holds such a lease
    laxity_s: FloatArray  #: time to spare until the promised end; infinite without a promise
    left_s: FloatArray  #: the time that each job still needs by plans
    starts_s: FloatArray  #: the latest start of a promised job that cannot be stopped; infinite for others
    plan: SchedulePlan | None  #: the latest plan of the promised jobs; None where there is none
    turns: TurnsAhead | None  #: turns of the promised jobs that can be stopped; None where there is none
    in_turns: IntArray  #: these jobs


@dataclass(frozen=True)
class Leases:
    """Jobs that the lease schedule has running now, by the time they have to spare; then the others, in order.

    A job that cannot be stopped runs to its end once started. Any other may have to yield when its lease ends: with a
    promise every ``lease_s`` from its start, without one every ``beat_s``. In between only a promised job that would be
    late otherwise takes its place.
    """

    terms: LeaseTerms

    def __call__(self, view: View, order: IntArray, nodes: FreeNodes) -> None:
        """Start jobs, and let running ones yield."""
        claims = lease_claims(view, nodes.present, self.terms)
        ranked, claims = ranked_in_time(view.now_s, order, nodes.present, claims)
        first = np.flatnonzero((claims.must | claims.urgent)[ranked])
        firm = int(first[-1]) + 1 if len(first) else 0  # a promise does not wait for the whole nodes of worse jobs
        spare = no_spare(nodes.jobs.resources, nodes.count)
        run_best(nodes.jobs, ranked, nodes.runs, firm, spare, nodes.no_node, nodes.yields, nodes.started, view.now_s)


def by_claims(order: IntArray, claims: LeaseClaims) -> IntArray:
    """Return the jobs in *order* with claims before all others, jobs with equal claims as they were."""
    kind = np.select([claims.firm, claims.must, claims.stays], [0, 1, 2], 3)
    laxity_s = np.where(claims.urgent, claims.laxity_s, 0.0)
    keys = [key[order] for key in (laxity_s, ~claims.held, ~claims.urgent, kind)]
    return order[np.lexsort((np.arange(len(order)), *keys))]


def lease_claims(view: View, jobs: JobTable, terms: LeaseTerms) -> LeaseClaims:
    """Return the claims of *jobs*, the running ones of *view* and then its pending ones."""
    now_s, runs, on_beat = view.now_s, jobs.state == JobState.RUNNING, terms.on_beat(view.now_s)
    restart_s, stoppable = resume_costs_s(jobs, terms), can_be_stopped(jobs)
    work = remaining_work(jobs, view.forecast_running.joined(view.forecast), now_s, restart_s)
    ends_s = promised_ends(now_s, jobs, work, view.promises, terms)
    bound, laxity_s = np.isfinite(ends_s), ends_s - now_s - work.left_s
    held = runs & stoppable & bound & in_lease(now_s - jobs.started_s, terms)
    urgent, must, plan = held.copy(), np.zeros(len(jobs), dtype=np.bool_), None
    starts_s, turns, in_turns = np.full(len(jobs), np.inf), None, np.zeros(0, dtype=np.int64)
    placed = np.flatnonzero(bound & placed_by_plans(jobs))
    if len(placed):
        requests = lease_requests(jobs, work, now_s, ends_s).take(placed)
        room = steady_room(view, work.left_s[: len(view.running)], terms.beat_s)
        schedule = LeaseSchedule(now_s, terms.beat_s, room, view.solved)
        plan = schedule.latest(requests, terms.slack_s)
        urgent[placed] |= needed_now(plan, hopeless=True)
        starts_s[placed] = plan.starts_s
        parts, in_turns = requests.take(requests.stoppable), placed[requests.stoppable]
        turns = TurnsAhead(now_s, terms.next_beat_s(now_s), terms.beat_s, plan.beside_reservations, parts)
        if not on_beat or jobs.gpus[urgent].sum() > room.free[0, 0]:
            must[placed] = needed_now(schedule.latest(requests), hopeless=False)
            # A job that runs and is stopped pays for resuming, which the plan does not include before.
            must |= runs & bound & (laxity_s < terms.beat_s + restart_s)
            urgent |= must
    stays = runs & (held | (not on_beat))
    firm = runs & ~stoppable
    return LeaseClaims(firm, stays, must, urgent, held, laxity_s, work.left_s, starts_s, plan, turns, in_turns)


def ranked_in_time(now_s: float, order: IntArray, jobs: JobTable, claims: LeaseClaims) -> tuple[IntArray, LeaseClaims]:
    """Return the jobs in *order* with claims before all others, and these claims.

    If more promises are kept where promised jobs take turns from now on, or from the next beat on, these turns are
    their claims.
    """
    ranked = that_keep_promises(now_s, by_claims(order, claims), jobs, claims)
    turns = claims.turns
    if turns is None:
        return ranked, claims
    runs = chosen_in(ranked, jobs, claims.firm, int(turns.room.free[0, 0]))
    late = int(turns.late(runs[claims.in_turns]).sum())
    fewest, chosen = turns.fewest_late() if late else (0, runs)
    if late <= fewest:
        return ranked, claims
    must = np.zeros(len(jobs), dtype=np.bool_)
    must[claims.in_turns] = chosen
    claims = claims._replace(must=must, urgent=claims.urgent | must)
    later = np.zeros(len(jobs), dtype=np.bool_)
    later[claims.in_turns] = ~chosen & turns.possible
    ranked = that_keep_promises(now_s, by_claims(order, claims), jobs, claims)
    runs = jobs.state[ranked] == JobState.RUNNING
    return np.concatenate([ranked[~later[ranked]], ranked[later[ranked] & runs]]), claims


def chosen_in(ranked: IntArray, jobs: JobTable, firm: BoolArray, room: int) -> BoolArray:
    """Select the *firm* jobs, and those that run beside them on *room* GPUs, the first ones in *ranked* first."""
    chosen = firm.copy()
    for number, gpus in zip(ranked.tolist(), jobs.gpus[ranked].tolist(), strict=True):
        if gpus <= room and not chosen[number]:
            chosen[number] = True
            room -= gpus
        if not room:
            break
    return chosen


def that_keep_promises(now_s: float, ranked: IntArray, jobs: JobTable, claims: LeaseClaims) -> IntArray:
    """Leave out of *ranked* the jobs that would run to their end on GPUs that the plan needs before.

    These are pending jobs that cannot be stopped and need not run now. The plan has GPUs for a promised one from its
    latest start on.
    """
    waits = (jobs.state != JobState.RUNNING) & ~can_be_stopped(jobs) & ~claims.urgent
    if claims.plan is None or not waits[ranked].any():
        return ranked
    room, tried, stays = claims.plan.left(), 0, np.ones(len(ranked), dtype=np.bool_)
    everywhere, until_s = np.ones(1, dtype=np.bool_), np.fmin(now_s + claims.left_s, claims.starts_s)
    for place in np.flatnonzero(waits[ranked]).tolist():
        number = int(ranked[place])
        gpus = jobs.gpus[[number]]
        free = tried < MOST and int(gpus[0]) <= int(room.free[0, 0])
        tried += free
        stays[place] = free and not room.short(gpus, now_s, until_s[number]).any()
        if stays[place]:
            room.take(everywhere, int(gpus[0]), now_s, until_s[number])
    return ranked[stays]


def in_lease(age_s: FloatArray, terms: LeaseTerms) -> BoolArray:
    """Select the runs of *age_s* seconds whose lease goes on: leases end on the beat."""
    with np.errstate(invalid="ignore"):
        goes_on: BoolArray = (age_s < terms.lease_s) | (age_s % terms.lease_s >= terms.beat_s)
    return goes_on


def needed_now(plan: SchedulePlan, *, hopeless: bool) -> BoolArray:
    """Select the jobs that run in the first tick of *plan*, with or without those that are late whatever happens."""
    ticks = plan.first + plan.late + (plan.hopeless if hopeless else 0)
    return np.asarray(ticks > 0)


SELECTIONS.add(
    Selection(
        "leases",
        Leases(LeaseTerms()),
        "Promised jobs in leases when the schedule needs them; the others in order beside them (Chronus).",
        tuned=lambda settings: Leases(of_numbers(LeaseTerms, "leases", settings, GONE)),
        defaults=defaults_of(LeaseTerms),
        powers=frozenset({"start", "preempt"}),
    )
)
