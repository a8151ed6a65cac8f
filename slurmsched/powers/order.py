"""The order: waiting jobs get the points with which Slurm follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..cluster.actions import Action, Rank, Share
from ..cluster.columns import IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Plan
from ..cluster.state import View
from ..config import Settings
from ..decide.draft import Draft, Lane
from ..decide.rules import Rules
from ..policies.contract import Ordering

name = "order"
section = ""
can_wait = False


def terms(settings: Settings) -> None:
    """Return nothing: ``[order]`` has the terms of the plan, whatever writes it."""


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return changes of points; jobs on their way to shared GPUs get none."""
    jobs, placing = draft.view.pending, draft.placing
    tier, moves = draft.view.tiers, draft.wishes.of(Lane.MOVE)
    return {Lane.RANK: _rank_wishes(jobs, tier, placing.rank, placing.points, moves)}


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield nothing: ``why`` and ``explain`` tell the place of each job."""
    yield from ()


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield nothing: keys that change with time are seen at the next event."""
    yield from ()


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
    wanted = np.where(rank >= 0, rank, len(jobs))[rows]
    rows = rows[np.lexsort((jobs.job_id[rows], wanted, _higher_places(tier, jobs.priority, rows, wanted)))]
    return [
        Rank(job_id, value) for job_id, value in zip(jobs.job_id[rows].tolist(), points[rows].tolist(), strict=True)
    ]


def _higher_places(tier: IntArray, priority: IntArray, rows: IntArray, wanted: IntArray) -> IntArray:
    """Return the higher of the present places of *rows*, by *tier* and *priority*, and the *wanted* ones.

    Of each tier only the jobs are sorted whose places may be higher than a wanted one: a long queue has few.
    """
    higher, tiers = wanted.copy(), tier[rows]
    for one in set(tiers.tolist()):
        mine, here, above = tiers == one, priority[tier == one], int(np.count_nonzero(tier > one))
        some = min(max(int(wanted[mine].max()) - above, 1), len(here))
        best = np.sort(np.partition(here, len(here) - some)[len(here) - some :] if some < len(here) else here)
        present = above + some - np.searchsorted(best, priority[rows[mine]], side="right")
        higher[mine] = np.minimum(present, wanted[mine])
    return higher
