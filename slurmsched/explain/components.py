"""Components of heterogeneous jobs: Slurm starts them together, on different nodes (tried on a lab). Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.job_nodes import nodes_by_kind
from ..decide.unshown_nodes import unshown_nodes
from ..policies.selection.could_hold import Never

DIFFERENT_NODES = "Slurm gives the components of a heterogeneous job different nodes, which these times do not count."
"""A sentence about times of components that may use the same nodes."""


def with_components(view: View, row: int) -> tuple[View, int]:
    """Return the pending job in *row* with the other components of its heterogeneous job alone, and its row there."""
    leader = view.pending.het_job_id[row]
    rows = np.flatnonzero(view.pending.het_job_id == leader) if leader else np.array([row])
    return view.take(rows), int(np.flatnonzero(rows == row)[0])


def too_few_nodes(view: View) -> dict[int, Never]:
    """Return the pending components that ask, all together, for more nodes than there are for them."""
    hidden = set(unshown_nodes(view))
    found: dict[int, Never] = {}
    for rows, nodes, allowed in _each_job(view):
        for own in np.unique(allowed, axis=0):
            within = ~(allowed & ~own).any(axis=1)  # components that may use these nodes alone
            asked, there = int(nodes[within].sum()), int(own.sum())
            if asked > there > 0 and not hidden & set(rows.tolist()):
                why = f"its components together ask for {asked} different nodes, and {count(there, 'node')}"
                found |= dict.fromkeys(rows.tolist(), Never(f"{why} could hold them"))
    return found


def on_same_nodes(view: View) -> dict[int, tuple[str, str]]:
    """Return, by row, a sentence about pending components that may use nodes of others, and what has Slurm's time."""
    found: dict[int, tuple[str, str]] = {}
    for rows, _, allowed in _each_job(view):
        if (allowed.sum(axis=0) > 1).any():
            leader = view.pending.het_job_id[rows[0]]
            found |= dict.fromkeys(
                rows.tolist(), (DIFFERENT_NODES, f"'squeue --start -j {leader}' has Slurm's own time.")
            )
    return found


def _each_job(view: View) -> Iterator[tuple[IntArray, IntArray, BoolArray]]:
    """Yield the rows of each heterogeneous job, the nodes that each component asks for, and those that it may use."""
    leaders = view.pending.het_job_id
    if not leaders.any():
        return
    kind, allowed = nodes_by_kind(view, view.pending)
    for leader in np.unique(leaders[leaders > 0]).tolist():
        rows = np.flatnonzero(leaders == leader)
        if len(rows) > 1:
            yield rows, np.maximum(view.pending.nodes[rows], 1), allowed[kind[rows]] & _with_gpus(view, rows)


def _with_gpus(view: View, rows: IntArray) -> BoolArray:
    """Return the nodes that have some GPU of the type that each of the pending *rows* asks for, if it does."""
    jobs, nodes = view.pending, view.nodes
    have = [
        nodes.gpus_of(jobs.gpu_type[row]) > 0 if jobs.gpus[row] else np.ones(len(nodes), dtype=np.bool_)
        for row in rows.tolist()
    ]
    return np.array(have, dtype=np.bool_)
