"""The order of pending jobs: who stands in it, who must run now to keep a promise, and their ranks. Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Standing
from ..cluster.state import View
from ..cluster.ties import in_ms, in_points
from ..policies.contract import Ordering
from .admission import waiting_outside
from .deadlines.blocking import behind_wide_jobs, blocking_jobs
from .deadlines.promises import Promised, promise
from .deadlines.stops import stops
from .draft import Draft
from .ordering.eligibility import standing
from .ordering.ranking import base_priority, order, qos_classes, waited_s
from .profiling import least_gpus_first, rank_profiling_last, to_profile
from .rules import DeadlineRules, Rules
from .trial import with_holdout
from .turns import DEADLINES, ORDER, Watch


def ordered(view: View, ordering: Ordering, rules: Rules, entering: Watch) -> Draft:
    """Return the draft with the promises and the order of jobs; those that are left alone have no place in it."""
    view = rank_profiling_last(view, rules.profiling)
    jobs = view.pending
    standings = standing(jobs, view.partitions, rules.only_partitions)
    waited = waited_s(jobs, view.now_s)
    starving = waited > rules.starvation_s
    promised = stopping = None
    if rules.deadlines is not None:
        entering(DEADLINES)
        stopping = stops(view, rules)
        steers = "order" in rules.powers or not rules.executor.takes_points
        promised = promise(view, standings, rules.deadlines, steers, stopping)
        view = view.changed(promises=promised.table)
        entering(ORDER)
    standings = waiting_outside(view, rules, standings, starving)
    rows = np.flatnonzero(standings == Standing.RANKED)
    due = nobody(jobs) if promised is None else promised.due & (standings == Standing.RANKED)
    ranked = _ranked(view, ordering, rules, rows, (waited, starving), promised, due)
    held = rows[:0]
    if promised is not None and rules.deadlines is not None:
        entering(DEADLINES)
        blocking, endangered = blocking_jobs(view, promised, ranked, rules.deadlines)
        entering(ORDER)
        # Only jobs that waited longer rank above a starving job: it is never delayed for a promise.
        if stopping is not None:
            blocking = np.union1d(blocking, behind_wide_jobs(view, promised, ranked))
        held = blocking[~starving[blocking] & _may_be_delayed(jobs, rules.deadlines)[blocking]]
        endangered &= standings == Standing.RANKED
        if (endangered & ~due).any():
            due |= endangered
            ranked = _ranked(view, ordering, rules, rows, (waited, starving), promised, due)
    return Draft(view, ordering, rules, standings, starving, ranked, due, held, promised, stopping)


def nobody(jobs: JobTable) -> BoolArray:
    """Select none of *jobs*."""
    return np.zeros(len(jobs), dtype=np.bool_)


def _may_be_delayed(jobs: JobTable, rules: DeadlineRules) -> BoolArray:
    """Select jobs whose total delay stays within ``hold_most_s`` after one more hold; no interactive one is delayed."""
    return np.asarray((jobs.delayed_s + rules.hold_s <= rules.hold_most_s) & ~jobs.interactive)


def _ranked(
    view: View,
    ordering: Ordering,
    rules: Rules,
    rows: IntArray,
    waits: tuple[FloatArray, BoolArray],
    promised: Promised | None,
    due: BoolArray,
) -> IntArray:
    """Sort *rows*: within a class starving jobs first, then jobs that are due by laxity, then the others by key.

    *waits* are the times that jobs have waited, and which of them starve.
    """
    jobs, (waited, starving) = view.pending, waits
    tier, qos, base = view.tiers, qos_classes(jobs, view.qos), base_priority(jobs)
    if ordering.native:
        key, classes = -base.astype(np.float64), tier
        starving = starving if due.any() else nobody(jobs)
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
    if rules.trial is not None and rules.trial.holdout and not ordering.native:
        ranked = with_holdout(ranked, jobs, rules.trial, classes, starving | due)
    if rules.profiling is None or ordering.native:
        return ranked
    return least_gpus_first(ranked, to_profile(view, rules.profiling) & ~starving & ~due, jobs.gpus, classes)


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
