"""The order: points of pending jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..events import Value
from .base import JobAction, OwnIntents
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import IntArray
    from ..jobs import JobTable


@dataclass(frozen=True)
class Rank(JobAction):
    """Give the job this many points of SiteFactor (its fixed Priority where a site runs priority/basic)."""

    points: int
    power = "order"
    stored = "Rank"
    returned = "ranked", "points taken from {jobs}"
    story = (("ranked", "we gave it {value} points"),)

    @property
    def gives_back(self) -> bool:
        """True if the job has no points of ours any more."""
        return self.points == 0

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"site_points": self.points}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the points."""
        return {"site_points": points(own.of(cls), pending, now_s)}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job has these points."""
        return bool(pending.site_points[row] == value)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once the job has started, or its points were given back."""
        return look.waiting(intent.job_id) is None or (seen and intent.value == 0)


def points(ranks: Collection[Intent], pending: JobTable, now_s: float) -> IntArray:
    """Return the points of *pending* jobs; where Slurm shows none for a begin time ahead, those we gave last."""
    hidden = np.flatnonzero((pending.eligible_s > now_s) & (pending.site_points == 0)).tolist()
    if not hidden:
        return pending.site_points
    points_of = {intent.job_id: intent.value for intent in ranks if intent.answered_s is not None}
    found = pending.site_points.copy()
    for row in hidden:
        value = points_of.get(int(pending.job_id[row]))
        if isinstance(value, int) and value < pending.priority[row]:
            found[row] = value
    return found
