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

PRIORITY_BITS = 32
"""The length of Slurm's priorities, which are below those of any higher tier."""


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
    slurms = (tier << PRIORITY_BITS) + jobs.priority
    present = len(jobs) - np.searchsorted(np.sort(slurms), slurms[rows], side="right")
    wanted = np.where(rank >= 0, rank, len(jobs))[rows]
    rows = rows[np.lexsort((jobs.job_id[rows], wanted, np.minimum(present, wanted)))]
    return [
        Rank(job_id, value) for job_id, value in zip(jobs.job_id[rows].tolist(), points[rows].tolist(), strict=True)
    ]
