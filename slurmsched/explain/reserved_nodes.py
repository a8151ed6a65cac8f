"""Explanations of waits for nodes that a reservation keeps: when it begins or ends, and the limit that would fit. Pure.

Reservations are not named: a site may hide them (PrivateData=reservations).
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.reservations import MAINT, Claimant, ReservationTable, claimant_of, keeping_out
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..cluster.text.tres import timelimit
from ..decide.job_nodes import nodes_by_kind
from ..decide.phrasing import spell

MARGIN_S = 120.0
"""Slurm looks at a job a while after its limit was changed, and counts limits in whole minutes."""


def reserved_words(view: View, row: int) -> tuple[str, str] | None:
    """Return which reservation keeps the nodes of a pending job, and what helps; None where no window is known."""
    jobs, table, now_s = view.pending, view.reservations, view.now_s
    limit_s = float(jobs.time_limit_s[row])
    rows = _windows(view, row, table, claimant_of(jobs, row), limit_s)
    if not len(rows):
        return None
    first = int(rows[np.argmin(table.start_s[rows])])
    what = "maintenance" if table.has(MAINT)[first] else "reservation"
    begins_s, ends_s = float(table.start_s[first]) - now_s, float(table.end_s[first]) - now_s
    if begins_s <= 0:
        return (
            f"Nodes that it needs are in a {what} now, for {spell(ends_s)} more.",
            "Nothing: it starts afterwards, or earlier where it may use other nodes.",
        )
    asked = spell(limit_s) if np.isfinite(limit_s) else "any time"
    text = f"It asks for {asked}, and a {what} of nodes that it needs begins in {spell(begins_s)}, for "
    text += f"{spell(ends_s - begins_s)}: it would not end before."
    fits_s = (begins_s - MARGIN_S) // 60 * 60
    if fits_s < 60:
        return text, "Nothing: it starts afterwards."
    change = f"'scontrol update jobid={jobs.job_id[row]} timelimit={timelimit(fits_s)}'"
    return text, f"With {change} it could start before that; as it is, it starts afterwards."


def _windows(view: View, row: int, table: ReservationTable, job: Claimant, limit_s: float) -> IntArray:
    """Return the windows on nodes that a job may use, which keep it out if it starts now."""
    if not len(table):
        return np.zeros(0, dtype=np.int64)
    kept = keeping_out(table, view.now_s, view.now_s + limit_s, job)
    kind, allowed = nodes_by_kind(view, view.pending.take(np.array([row])))
    mine = {name for name, may in zip(view.nodes.name, allowed[kind[0]].tolist(), strict=True) if may}
    here = table.nodes.map([not mine.isdisjoint(expanded(text)) for text in table.nodes.names], np.bool_)
    return np.flatnonzero(kept & here)
