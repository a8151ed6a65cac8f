"""decide(): compute a Plan from a view, a policy and rules. Pure: equal inputs give the same Plan, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from ..cluster.actions import Action, Hold, Rank, Release, Share, Unmark, Unshare, job_of
from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.limits import why_unread
from ..cluster.plan import Placing, Plan, Standing
from ..cluster.state import View
from ..cluster.ties import in_ms, in_points
from ..policies.contract import Ordering
from .admission import hold_wishes, kept_by_users, waiting_outside
from .deadlines.blocking import blocking_jobs
from .deadlines.deadline_comment import answer_wishes
from .deadlines.order_leases import lease_wishes
from .deadlines.preemption import stop_wishes
from .deadlines.promises import Promised, promise
from .deadlines.stops import stops
from .ending import end_wishes
from .excluded_nodes import exclude_wishes, kept_off, unsafe
from .giving_back import give_back_wishes
from .migration import leave_wishes
from .ordering.eligibility import standing
from .ordering.greedy_fit import fill
from .ordering.priority_points import MOST_POINTS, label
from .ordering.ranking import base_priority, order, qos_classes, tiers, waited_s
from .profiling import least_gpus_first, profiling_wishes, rank_profiling_last, to_profile
from .profiling_nodes import node_wishes
from .referee import judge, needs_limits
from .resizing import Sizing, sizing
from .rightsizing import rightsize_wishes
from .rules import DeadlineRules, Rules
from .run_set import start_wishes
from .sharing.packing import packing_wishes
from .sharing.pair_eviction import eviction_wishes, unsteady
from .steering import steer_wishes
from .turns import ORDER, Watch, unwatched, wishes_of

DEADLINES = "deadlines"
"""The part of a decision that makes, keeps and answers promises."""

ROOM = 8
"""Points reserved per job if points are scarce, so that a new job fits between two others."""

FEW = 64
"""Minimum number of jobs that get points even if points are scarce."""


PRIORITY_BITS = 32
"""The length of Slurm's priorities, which are below those of any higher tier."""


def decide(view: View, ordering: Ordering, rules: Rules, entering: Watch = unwatched) -> Plan:
    """Compute the jobs to run, their order, and the writes that make Slurm follow it.

    Jobs that are left alone lose their points. With a native ordering only jobs that must run now to keep a promise get
    points. *entering* is told of each part as it begins.
    """
    entering(ORDER)
    view = rank_profiling_last(view, rules.profiling)
    jobs = view.pending
    standings = standing(jobs, view.partitions, rules.only_partitions)
    starving = waited_s(jobs, view.now_s) > rules.starvation_s
    if rules.deadlines is None:
        standings = waiting_outside(view, rules, standings, starving)
        rows = np.flatnonzero(standings == Standing.RANKED)
        ranked = _ranked(view, ordering, rules, rows, starving, None, _nobody(jobs))
        stop_requests = eviction_wishes(view, rules, ())
        stop_requests += _yielding(view, ordering, rules, standings, ranked, starving, stop_requests, entering)
        nobody, held = _nobody(jobs), rows[:0]
        return _plan(view, ordering, rules, standings, starving, None, ranked, nobody, held, stop_requests, entering)
    entering(DEADLINES)
    stopping = stops(view, rules)
    steers = "order" in rules.powers or rules.composition is not None
    promised = promise(view, standings, rules.deadlines, steers, stopping)
    view = replace(view, promises=promised.table)
    stop_requests = stop_wishes(view, promised, rules.deadlines, stopping)
    stop_requests += eviction_wishes(view, rules, {job_of(wish) for wish in stop_requests})
    entering(ORDER)
    standings = waiting_outside(view, rules, standings, starving)
    rows = np.flatnonzero(standings == Standing.RANKED)
    due = promised.due & (standings == Standing.RANKED)
    ranked = _ranked(view, ordering, rules, rows, starving, promised, due)
    entering(DEADLINES)
    blocking, endangered = blocking_jobs(view, promised, ranked, rules.deadlines)
    entering(ORDER)
    # Only jobs that waited longer rank above a starving job: it is never delayed for a promise.
    held = blocking[~starving[blocking] & _may_be_delayed(jobs, rules.deadlines)[blocking]]
    endangered &= standings == Standing.RANKED
    if (endangered & ~due).any():
        due |= endangered
        ranked = _ranked(view, ordering, rules, rows, starving, promised, due)
    free = ranked[~np.isin(ranked, held)]
    stop_requests += _yielding(view, ordering, rules, standings, free, starving, stop_requests, entering)
    return _plan(view, ordering, rules, standings, starving, promised, ranked, due, held, stop_requests, entering)


def _yielding(
    view: View,
    ordering: Ordering,
    rules: Rules,
    standings: IntArray,
    ranked: IntArray,
    starving: BoolArray,
    asked: Sequence[Action],
    entering: Watch,
) -> list[Action]:
    """Return requests to stop for the order and for the sake of nodes, to jobs that are not *asked* already."""
    jobs = set(map(job_of, asked))
    found = wishes_of("lease", rules, entering, lambda: lease_wishes(view, ordering, rules, ranked, starving, jobs))
    jobs |= set(map(job_of, found))
    return found + wishes_of("migrate", rules, entering, lambda: leave_wishes(view, ordering, rules, standings, jobs))


def _may_be_delayed(jobs: JobTable, rules: DeadlineRules) -> BoolArray:
    """Select jobs whose total delay stays within ``hold_most_s`` after one more hold; no interactive one is delayed."""
    return np.asarray((jobs.delayed_s + rules.hold_s <= rules.hold_most_s) & ~jobs.interactive)


def _plan(
    view: View,
    ordering: Ordering,
    rules: Rules,
    standings: IntArray,
    starving: BoolArray,
    promised: Promised | None,
    ranked: IntArray,
    due: BoolArray,
    held: IntArray,
    stop_requests: Sequence[Action],
    entering: Watch,
) -> Plan:
    """Return the plan for jobs in the order *ranked*, with those *due* for a promise first, and *held* jobs delayed."""
    jobs, rank = view.pending, np.full(len(view.pending), -1, dtype=np.int64)
    tier, base = tiers(jobs, view.partitions), base_priority(jobs)
    rank[ranked] = np.arange(len(ranked))
    held = held if "hold" in rules.powers else held[:0]
    runs, wanted = _nobody(jobs), ranked[~np.isin(ranked, held)]
    starts: list[Action] = []
    if rules.composition is None:
        runs[wanted] = fill(jobs, wanted, view.nodes)
    else:
        sharing = rules.sharing if "share" in rules.powers else None
        runs, starts = start_wishes(view, wanted, ordering, rules.composition, sharing, rules.profiling)
    points, capped = np.zeros(len(jobs), dtype=np.int64), _nobody(jobs)
    if rules.composition is None and (not ordering.native or due.any()):
        points, capped = _points(jobs, ranked, tier, base, rules, rules.cap(view.qos), ordering.native)
    entering("profile")
    moves = [] if rules.profiling is None else profiling_wishes(view, rules.profiling, standings)
    entering(ORDER)
    if rules.sharing is not None and rules.composition is None:
        busy = {*jobs.job_id[held].tolist(), *map(job_of, moves)}
        joins = "share" in rules.powers
        entering("share")
        moves = [*moves, *packing_wishes(view, ranked, runs, rules.sharing, busy, joins=joins)]
    entering(ORDER)
    outside, by_users = np.flatnonzero(standings == Standing.OUTSIDE), kept_by_users(view, rules, standings, starving)
    off = kept_off(view, rules.migration)
    releases = _release_wishes(jobs, view.now_s, np.concatenate([held, outside, by_users, unsafe(view, off)]), rules)
    holds: list[Action] = []
    if rules.deadlines is not None:
        holds = [Hold(job, view.now_s + rules.deadlines.hold_s) for job in jobs.job_id[held].tolist()]
    entering(DEADLINES)
    answers = answer_wishes(view, view.promises) if "comment" in rules.powers else []
    entering(ORDER)
    # Holds are renewed in each cycle: without alternation they could use up all writes, and no answer would be sent.
    turns = [wish for pair in zip_longest(holds, answers) for wish in pair if wish is not None]
    lending = node_wishes(view, rules, standings)
    ranks: list[Action] = [*_rank_wishes(jobs, tier, rank, points, moves)]
    back = give_back_wishes(view, rules)
    moves = [wish for wish in moves if isinstance(wish, Unshare | Unmark) or job_of(wish) not in back.jobs]
    moving = {*map(job_of, moves), *back.jobs}
    steers = wishes_of("steer", rules, entering, lambda: steer_wishes(view, rules, standings, ranked, starving))
    steers = [wish for wish in exclude_wishes(view, off, steers) if job_of(wish) not in moving]
    rightsizes = wishes_of("rightsize", rules, entering, lambda: rightsize_wishes(view, rules, standings, ranked))
    rightsizes = [wish for wish in rightsizes if job_of(wish) not in moving]
    sizes = Sizing()
    if "resize" not in rules.waiting:
        entering("resize")
        sizes = sizing(view, rules, standings, ranked, set(map(job_of, stop_requests)))
        entering(ORDER)
    resizes = [wish for wish in sizes.resizes if job_of(wish) not in moving]  # before a release lets such a job start
    if why_unread(view.limits):
        steers, rightsizes, resizes = (
            [wish for wish in some if not needs_limits(wish)] for some in (steers, rightsizes, resizes)
        )
    else:
        stop_requests = [*stop_requests, *sizes.stops]
    # A burst of jobs needs as many of the one as of the other.
    ranks = [wish for each in zip_longest(steers, rightsizes, ranks) for wish in each if wish is not None]
    kept_out = hold_wishes(view, rules, outside, by_users)
    ends = end_wishes(view, rules)
    wishes = [
        *back.wishes,
        *resizes,
        *releases,
        *stop_requests,
        *ends,
        *moves,
        *lending,
        *ranks,
        *turns,
        *kept_out,
        *starts,
    ]
    entering("referee")
    actions, refusals = judge(wishes, view, rules)
    entering(ORDER)
    placing = Placing(standings, rank, starving, runs, points, capped)
    solved = promised is not None and promised.solved
    return Plan(placing, tuple(actions), tuple(refusals), view.promises, solved)


def _ranked(
    view: View,
    ordering: Ordering,
    rules: Rules,
    rows: IntArray,
    starving: BoolArray,
    promised: Promised | None,
    due: BoolArray,
) -> IntArray:
    """Sort *rows*: within a class starving jobs first, then jobs that are due by laxity, then the others by key."""
    jobs, waited = view.pending, waited_s(view.pending, view.now_s)
    tier, qos, base = tiers(jobs, view.partitions), qos_classes(jobs, view.qos), base_priority(jobs)
    if ordering.native:
        key, classes = -base.astype(np.float64), tier
        starving = starving if due.any() else _nobody(jobs)
    else:
        key = _keys(view, ordering, rules, rows)
        classes = tier if rules.scope == "queue" else tier * (int(qos.max(initial=0)) + 1) + qos
    if promised is not None and due.any():
        place = np.unique(np.where(np.isnan(key), np.inf, key), return_inverse=True)[1].astype(np.float64)
        # A promise that no plan keeps comes last, lest its job take the GPUs of others that can be kept.
        urgency = np.where(promised.late, np.inf, promised.laxity_s)
        laxity = np.unique(in_ms(urgency[due]), return_inverse=True)[1].astype(np.float64)
        place[due] = laxity - len(laxity)
        key = place
    came = jobs.came_s[rows], jobs.job_id[rows]
    ranked = rows[order(key[rows], starving[rows], waited[rows], classes[rows], base[rows], *came)]
    if rules.profiling is None or ordering.native:
        return ranked
    return least_gpus_first(ranked, to_profile(view, rules.profiling) & ~starving & ~due, jobs.gpus, classes)


def _nobody(jobs: JobTable) -> BoolArray:
    return np.zeros(len(jobs), dtype=np.bool_)


def _keys(view: View, ordering: Ordering, rules: Rules, rows: IntArray) -> FloatArray:
    """Return the key of each pending job; where jobs are not admitted, *rows* alone are seen and have one."""
    if rules.composition is None:
        return _checked(ordering(view), view.pending, ordering)
    seen = view.take(rows)
    key = np.full(len(view.pending), np.nan)
    key[rows] = _checked(ordering(seen), seen.pending, ordering)
    return key


def _checked(key: FloatArray, jobs: JobTable, ordering: Ordering) -> FloatArray:
    if key.shape != (len(jobs),):
        raise ValueError(f"ordering {ordering.name!r} gave keys of shape {key.shape} for {len(jobs)} pending jobs")
    return in_points(key)


def _points(
    jobs: JobTable, ranked: IntArray, tier: IntArray, base: IntArray, rules: Rules, most: int, native: bool
) -> tuple[IntArray, BoolArray]:
    """Return points per pending job, and which jobs the cap keeps from their place.

    The top of each partition tier gets points: Slurm serves tiers in turn, so only jobs of one tier compete. *most* is
    the cap where the scope has one; in Slurm's own order (*native*) only the cap keeps QOS apart.
    """
    points = np.zeros(len(jobs), dtype=np.int64)
    capped = np.zeros(len(jobs), dtype=bool)
    capped_scope = rules.scope == "points" or (native and rules.scope == "qos")
    cap = most if capped_scope else MOST_POINTS
    length = min(rules.window, cap, max(FEW, cap // ROOM))
    for value in np.unique(tier[ranked]).tolist():
        chain = ranked[tier[ranked] == value]
        top, rest = chain[:length], chain[length:]
        floor = int(base[rest].max(initial=0))
        labelling = label(base[top], jobs.site_points[top], floor, cap)
        points[top], capped[top] = labelling.points, labelling.capped
        if not native:  # jobs just below the top keep harmless points, since most of them come back
            near = chain[length : 2 * length]
            behind = jobs.priority[near] < (base[top] + points[top]).min()
            points[near] = np.where(behind, np.clip(jobs.site_points[near], 0, cap), 0)
    return points, capped


def _release_wishes(jobs: JobTable, now_s: float, held: IntArray, rules: Rules) -> list[Action]:
    """Return Releases of our begin times that no policy needs any more, once a requeue has settled.

    Jobs in *held* keep theirs. So does a job that left an unstable pair, which would start on the same GPUs again: the
    change back to its own GPUs ends the begin time too.
    """
    ours = jobs.held_by_us & (jobs.eligible_s > now_s) & jobs.settled(now_s)
    ours[held] = False
    if rules.sharing is not None:
        ours &= ~(jobs.shares & unsteady(jobs, rules.sharing))
    return [Release(job_id) for job_id in jobs.job_id[ours].tolist()]


def _rank_wishes(
    jobs: JobTable, tier: IntArray, rank: IntArray, points: IntArray, moves: Sequence[Action]
) -> list[Action]:
    """Return writes for jobs whose points must change, those that correct the top of the order first.

    Writes are sorted by the higher of a job's present and wanted places. A job that one of the *moves* sends to shared
    GPUs gets none: it has no points on its way.
    """
    differs = points != jobs.site_points
    if leaving := [wish.job_id for wish in moves if isinstance(wish, Share)]:
        differs &= ~np.isin(jobs.job_id, leaving)
    rows = np.flatnonzero(differs)
    if not len(rows):
        return []
    slurms = (tier << PRIORITY_BITS) + jobs.priority
    present = len(jobs) - np.searchsorted(np.sort(slurms), slurms[rows], side="right")
    wanted = np.where(rank >= 0, rank, len(jobs))[rows]
    rows = rows[np.lexsort((jobs.job_id[rows], wanted, np.minimum(present, wanted)))]
    return [
        Rank(job_id, value) for job_id, value in zip(jobs.job_id[rows].tolist(), points[rows].tolist(), strict=True)
    ]
