"""Explanations of waits for nodes that a reservation keeps: when it begins or ends, and the limit that would fit. Pure.

Reservations are not named but to jobs that name them: a site may hide them (PrivateData=reservations).
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import IntArray, Labels
from ..cluster.reservations import (
    MAINT,
    UNREAD,
    Claimant,
    ReservationTable,
    claimant_of,
    followed,
    keeping_out,
    kept_nodes,
    own_bounds_s,
    part_of_node,
)
from ..cluster.reserved_parts import bounded
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..cluster.text.plural import count
from ..cluster.text.tres import timelimit
from ..decide.job_nodes import nodes_by_kind
from ..decide.phrasing import spell
from ..policies.selection.could_hold import never

UNREAD_RESERVATION = "A reservation of the cluster could not be read, so that it may start later than is said here."

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


def is_kept_out(view: View, row: int) -> bool:
    """Report whether windows keep so many nodes from a pending job that the others could never hold it."""
    jobs, table = view.pending, view.reservations
    until_s = view.now_s + float(jobs.time_limit_s[row])
    exclusive = bool(jobs.exclusive[row])
    kept = kept_nodes(table, view.nodes, view.now_s, until_s, claimant_of(jobs, row), exclusive=exclusive)
    if not kept.any():
        return False
    some = jobs.take(np.array([row])).changed(reservation=Labels.of([""]))
    return bool(never(some, view.nodes.take(~kept), view.partitions))


def own_reservation_words(view: View, row: int) -> tuple[str, str] | None:
    """Return what a pending job waits for that names a reservation, and what helps; None where that is not known."""
    jobs, table, now_s = view.pending, view.reservations, view.now_s
    if not followed(table, jobs.take(np.array([row])))[0]:
        return None
    if words := too_large_for_own(view, row):
        return words
    name, (begin_s, end_s) = jobs.reservation[row], own_bounds_s(table, jobs.take(np.array([row])), now_s)
    out = f"'scontrol update jobid={jobs.job_id[row]} reservationname=' lets it queue like any other job."
    if not np.isfinite(end_s[0]):
        return None
    whose = f"one of the reservations {name.replace(',', ', ')}" if "," in name else f"reservation {name}"
    if begin_s[0] > now_s:
        return f"It belongs to {whose}, which begins in {spell(begin_s[0] - now_s)}.", out
    left_s = float(end_s[0]) - now_s
    where = "in its part of the nodes" if _own_parts(view, row) else "on its nodes"
    text = f"It belongs to {whose}, which is open for {spell(left_s)} more: it waits for room {where}"
    ends = ", and Slurm ends it with the reservation" if jobs.time_limit_s[row] > left_s else ""
    return f"{text}{ends}.", out


def too_large_for_own(view: View, row: int) -> tuple[str, str] | None:
    """Return that a pending job asks for more of a node than its reservation has of any, and what helps; else None."""
    jobs, parts = view.pending, _own_parts(view, row)
    if not parts:
        return None
    each = max(1, int(jobs.nodes[row]))
    cpus, gpus = -(-int(jobs.cpus[row]) // each), -(-int(jobs.gpus[row]) // each)
    exclusive = bool(jobs.exclusive[row])
    most_cpus, most_gpus = max(one[0] for one in parts), max(one[1] for one in parts)
    lacks = [
        *([f"{count(most_cpus, 'CPU')} of a node, and it asks for {cpus} there"] if cpus > most_cpus else []),
        *([f"{count(most_gpus, 'GPU')} of a node, and it asks for {gpus} there"] if gpus > most_gpus else []),
        *(["a part of each node, and it asks for whole nodes"] if exclusive else []),
    ]
    if not lacks:
        return None
    out = f"'scontrol update jobid={jobs.job_id[row]} reservationname=' lets it queue like any other job."
    return f"It cannot start in reservation {jobs.reservation[row]}, which has {lacks[0]}.", out


def _own_parts(view: View, row: int) -> list[tuple[int, int]]:
    """Return the CPUs and GPUs that the reservation of a pending job has of nodes, where these are parts of them."""
    table, found = view.reservations, list[tuple[int, int]]()
    name = view.pending.reservation[row]
    for window in [at for at, one in enumerate(table.name) if one == name][:1]:
        if bounded(table, window, view.nodes):
            cpus, gpus = part_of_node(table, window, view.nodes)
            gpus = gpus if table.gpus[window] else view.nodes.gpus
            found += [(int(cpus[node]), int(gpus[node])) for node in np.flatnonzero(cpus > 0).tolist()]
    return found


def unread_words(view: View) -> str:
    """Return a sentence where a reservation could not be read; else nothing."""
    return UNREAD_RESERVATION if view.reservations.has(UNREAD).any() else ""


def _windows(view: View, row: int, table: ReservationTable, job: Claimant, limit_s: float) -> IntArray:
    """Return the windows on nodes that a job may use, which keep it out if it starts now."""
    if not len(table):
        return np.zeros(0, dtype=np.int64)
    kept = keeping_out(table, view.now_s, view.now_s + limit_s, job)
    kind, allowed = nodes_by_kind(view, view.pending.take(np.array([row])))
    mine = {name for name, may in zip(view.nodes.name, allowed[kind[0]].tolist(), strict=True) if may}
    here = table.nodes.map([not mine.isdisjoint(expanded(text)) for text in table.nodes.names], np.bool_)
    return np.flatnonzero(kept & here)
