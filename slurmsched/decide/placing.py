"""Placing: the place and the points of each pending job, and whether it would run now. Pure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Placing
from .draft import Draft, Lane
from .order import nobody
from .ordering.greedy_fit import fill
from .ordering.priority_points import MOST_POINTS, label
from .ordering.ranking import base_priority
from .rules import Rules
from .run_set import start_wishes

ROOM = 8
"""Points reserved per job if points are scarce, so that a new job fits between two others."""

FEW = 64
"""Minimum number of jobs that get points even if points are scarce."""


def place(draft: Draft) -> Draft:
    """Add the place, the points and the run set of the order, and the starts where plans happen as they are.

    With a native ordering only jobs that must run now to keep a promise get points.
    """
    view, rules, ranked, jobs = draft.view, draft.rules, draft.ranked, draft.view.pending
    rank = np.full(len(jobs), -1, dtype=np.int64)
    rank[ranked] = np.arange(len(ranked))
    runs, wanted = nobody(jobs), ranked[~np.isin(ranked, draft.held)] if len(draft.held) else ranked
    points, capped = np.zeros(len(jobs), dtype=np.int64), nobody(jobs)
    if (parts := rules.executor.starts_by) is not None:
        sharing = rules.sharing if "share" in rules.powers else None
        runs, starts = start_wishes(view, wanted, draft.ordering, parts, sharing, rules.profiling)
        draft.wishes.add(Lane.START, starts)
    else:
        runs[wanted] = fill(jobs, wanted, view.nodes)
    if rules.executor.takes_points and (not draft.ordering.native or draft.due.any()):
        tier, base = view.tiers, base_priority(jobs)
        points, capped = _points(jobs, ranked, tier, base, rules, rules.cap(view.qos), draft.ordering.native)
    draft.placing = Placing(draft.standings, rank, draft.starving, runs, points, capped)
    return draft


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
    ends = (np.flatnonzero(np.diff(tier[ranked])) + 1).tolist()  # tiers are ranked one after the other
    for begin, end in pairwise([0, *ends, len(ranked)] if len(ranked) else []):
        chain = ranked[begin:end]
        top, rest = chain[:length], chain[length:]
        floor = int(base[rest].max(initial=0))
        labelling = label(base[top], jobs.site_points[top], floor, cap)
        points[top], capped[top] = labelling.points, labelling.capped
        if not native:  # jobs just below the top keep harmless points, since most of them come back
            near = chain[length : 2 * length]
            behind = jobs.priority[near] < (base[top] + points[top]).min()
            points[near] = np.where(behind, np.minimum(np.maximum(jobs.site_points[near], 0), cap), 0)
    return points, capped
