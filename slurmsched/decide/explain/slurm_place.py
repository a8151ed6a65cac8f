"""The place of a job by Slurm's own priority, for times when our order is not in force. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ...cluster.state import View
from ...cluster.text.plural import count
from ..ordering.ranking import tiers
from .explain import Explanation, Why

Sentences = TypeVar("Sentences", bound=Why | Explanation)


def order_is_off(mode: str, why_mode: str, powers: Collection[str]) -> str:
    """Return why our order is not in force under *mode*; empty where it is. *why_mode* says what lowered the mode."""
    if mode == "act":
        return "" if "order" in powers else "power.order is off"
    return why_mode or f"daemon.mode is {mode}"


def slurm_place(view: View, row: int) -> tuple[int, int]:
    """Return the place of a pending row by partition tier and Slurm's present priority, and among how many jobs.

    Jobs that are held (priority 0) have no place.
    """
    jobs = view.pending
    queued = np.flatnonzero(jobs.priority > 0)
    order = queued[np.lexsort((jobs.job_id[queued], -jobs.priority[queued], -tiers(jobs, view.partitions)[queued]))]
    places = np.flatnonzero(order == row)
    return (int(places[0]) + 1 if len(places) else 0), len(queued)


def with_slurm_place(explained: Sentences, view: View, off: str) -> Sentences:
    """Return *explained*, led by Slurm's own place of a pending job if our order is *off* (the reason, or empty)."""
    row = view.pending.row_of(explained.job_id)
    if not off or row is None:
        return explained
    place, queued = slurm_place(view, row)
    own = (
        f"by Slurm's own priority it is number {place} of {count(queued, 'pending job')}" if place else "Slurm holds it"
    )
    points = int(view.pending.site_points[row])
    left = f", with {count(points, 'point')} of ours that are left" if points else ""
    first, *rest = explained.sentences
    lead = f"Our order is not in force ({off}): {own}{left}. What follows is what our order would make of it."
    return replace(explained, sentences=(first, lead, *rest))
