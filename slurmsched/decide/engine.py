"""decide(): compute a Plan from a view, a policy and rules. Pure: equal inputs give the same Plan, bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

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
from .deadlines.preemption import stop_wishes
from .deadlines.promises import Promised, promise
from .deadlines.stops import stops
from .draft import CHANGES, Deciding, Draft, Lane, Wishes
from .excluded_nodes import exclude_wishes, kept_off, unsafe
from .giving_back import give_back_wishes
from .ordering.eligibility import standing
from .ordering.greedy_fit import fill
from .ordering.priority_points import MOST_POINTS, label
from .ordering.ranking import base_priority, order, qos_classes, tiers, waited_s
from .profiling import least_gpus_first, rank_profiling_last, to_profile
from .referee import judge, needs_limits
from .rules import DeadlineRules, Rules
from .run_set import start_wishes
from .sharing.pair_eviction import unsteady
from .turns import ORDER, Watch, unwatched

DEADLINES = "deadlines"
"""The part of a decision that makes, keeps and answers promises."""

ROOM = 8
"""Points reserved per job if points are scarce, so that a new job fits between two others."""

FEW = 64
"""Minimum number of jobs that get points even if points are scarce."""


PRIORITY_BITS = 32
"""The length of Slurm's priorities, which are below those of any higher tier."""


KeptOff = Mapping[int, frozenset[str]]
"""The nodes that pending jobs are kept off, by row."""


def decide(
    view: View, ordering: Ordering, rules: Rules, powers: Sequence[Deciding], entering: Watch = unwatched
) -> Plan:
    """Compute the jobs to run, their order, and the writes that make Slurm follow it.

    Jobs that are left alone lose their points. With a native ordering only jobs that must run now to keep a promise get
    points. *powers* have their turns one after the other; *entering* is told of each part as it begins.
    """
    entering(ORDER)
    draft = _ordered(rank_profiling_last(view, rules.profiling), ordering, rules, entering)
    placing, starts = _placing(draft)
    draft.runs, wishes, back = placing.runs, draft.wishes, give_back_wishes(draft.view, rules)
    wishes.add(Lane.GIVE_BACK, back.wishes)
    wishes.add(Lane.START, starts)
    for power in powers:
        if power.name not in rules.waiting:
            entering(power.name)
            for lane, some in power.wishes(draft).items():
                wishes.add(lane, some)
            entering(ORDER)
    off = kept_off(draft.view, rules.migration)
    _order_and_hold(draft, placing, off)
    _limit_changes(draft, off, back.jobs)
    entering("referee")
    actions, refusals = judge(wishes.in_order(), draft.view, rules)
    entering(ORDER)
    solved = draft.promised is not None and draft.promised.solved
    return Plan(placing, tuple(actions), tuple(refusals), draft.view.promises, solved)


def _ordered(view: View, ordering: Ordering, rules: Rules, entering: Watch) -> Draft:
    """Return the draft with the order of jobs, promises, and the stops that these and unstable pairs need."""
    jobs = view.pending
    standings = standing(jobs, view.partitions, rules.only_partitions)
    starving = waited_s(jobs, view.now_s) > rules.starvation_s
    promised, wishes = None, Wishes()
    if rules.deadlines is not None:
        entering(DEADLINES)
        stopping = stops(view, rules)
        steers = "order" in rules.powers or not rules.executor.takes_points
        promised = promise(view, standings, rules.deadlines, steers, stopping)
        view = replace(view, promises=promised.table)
        wishes.add(Lane.STOP, stop_wishes(view, promised, rules.deadlines, stopping))
    entering(ORDER)
    standings = waiting_outside(view, rules, standings, starving)
    rows = np.flatnonzero(standings == Standing.RANKED)
    due = _nobody(jobs) if promised is None else promised.due & (standings == Standing.RANKED)
    ranked = _ranked(view, ordering, rules, rows, starving, promised, due)
    held = rows[:0]
    if promised is not None and rules.deadlines is not None:
        entering(DEADLINES)
        blocking, endangered = blocking_jobs(view, promised, ranked, rules.deadlines)
        entering(ORDER)
        # Only jobs that waited longer rank above a starving job: it is never delayed for a promise.
        held = blocking[~starving[blocking] & _may_be_delayed(jobs, rules.deadlines)[blocking]]
        endangered &= standings == Standing.RANKED
        if (endangered & ~due).any():
            due |= endangered
            ranked = _ranked(view, ordering, rules, rows, starving, promised, due)
    return Draft(view, ordering, rules, standings, starving, ranked, due, held, promised, wishes)


def _may_be_delayed(jobs: JobTable, rules: DeadlineRules) -> BoolArray:
    """Select jobs whose total delay stays within ``hold_most_s`` after one more hold; no interactive one is delayed."""
    return np.asarray((jobs.delayed_s + rules.hold_s <= rules.hold_most_s) & ~jobs.interactive)


def _placing(draft: Draft) -> tuple[Placing, list[Action]]:
    """Return the place, the points and the run set of the order, and the starts where plans happen as they are."""
    view, rules, ranked, jobs = draft.view, draft.rules, draft.ranked, draft.view.pending
    rank = np.full(len(jobs), -1, dtype=np.int64)
    rank[ranked] = np.arange(len(ranked))
    runs, wanted = _nobody(jobs), ranked[~np.isin(ranked, draft.held)]
    points, capped = np.zeros(len(jobs), dtype=np.int64), _nobody(jobs)
    starts: list[Action] = []
    if (parts := rules.executor.starts_by) is not None:
        sharing = rules.sharing if "share" in rules.powers else None
        runs, starts = start_wishes(view, wanted, draft.ordering, parts, sharing, rules.profiling)
    else:
        runs[wanted] = fill(jobs, wanted, view.nodes)
    if rules.executor.takes_points and (not draft.ordering.native or draft.due.any()):
        tier, base = tiers(jobs, view.partitions), base_priority(jobs)
        points, capped = _points(jobs, ranked, tier, base, rules, rules.cap(view.qos), draft.ordering.native)
    return Placing(draft.standings, rank, draft.starving, runs, points, capped), starts


def _order_and_hold(draft: Draft, placing: Placing, off: KeptOff) -> None:
    """Add points, answers, and the begin times that jobs get and lose.

    Jobs that are kept *off* nodes wait until these are excluded.
    """
    view, rules, held, wishes = draft.view, draft.rules, draft.held, draft.wishes
    tier = tiers(view.pending, view.partitions)
    wishes.add(Lane.RANK, _rank_wishes(view.pending, tier, placing.rank, placing.points, wishes.of(Lane.MOVE)))
    outside = np.flatnonzero(draft.standings == Standing.OUTSIDE)
    by_users = kept_by_users(view, rules, draft.standings, draft.starving)
    kept = np.array(sorted(draft.kept), dtype=np.int64)
    keeping = np.concatenate([held, outside, by_users, unsafe(view, off), kept])
    wishes.add(Lane.RELEASE, _release_wishes(view.pending, view.now_s, keeping, rules))
    if rules.deadlines is not None:
        until_s = view.now_s + rules.deadlines.hold_s
        wishes.add(Lane.HOLD, [Hold(job, until_s) for job in view.pending.job_id[held].tolist()])
    wishes.add(Lane.KEEP_OUT, hold_wishes(view, rules, outside, by_users))
    wishes.add(Lane.ANSWER, answer_wishes(view, view.promises) if "comment" in rules.powers else ())


def _limit_changes(draft: Draft, off: KeptOff, going_back: Collection[int]) -> None:
    """Leave out what may not go out together: moves of jobs that get their own back, and changes of what those ask for
    that move or get it back; and changes that limits forbid which nobody could read.

    A job has one list of excluded nodes: of what powers want, and of the nodes that it is kept *off*.
    """
    wishes, back = draft.wishes, (Unshare, Unmark)
    moves = wishes.of(Lane.MOVE)
    wishes.replace(Lane.MOVE, [wish for wish in moves if isinstance(wish, back) or job_of(wish) not in going_back])
    wishes.replace(Lane.EXCLUDE, exclude_wishes(draft.view, off, wishes.of(Lane.EXCLUDE)))
    busy = {*map(job_of, wishes.of(Lane.MOVE)), *going_back}
    unread = why_unread(draft.view.limits)
    for lane in CHANGES:
        some = (wish for wish in wishes.of(lane) if job_of(wish) not in busy)
        wishes.replace(lane, [wish for wish in some if not (unread and needs_limits(wish))])


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
    """Return the key of each pending job; where jobs outside are not seen, *rows* alone have one."""
    if rules.executor.delays_jobs:
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
