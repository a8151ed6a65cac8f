"""The place of a waiting job in the order in force, among the jobs that compete for its nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.may_have import Allowances
from ..cluster.plan import Plan
from ..cluster.reasons import ReasonKind, where_kind
from ..cluster.state import View
from ..decide.job_nodes import node_part
from ..decide.ordering.ranking import base_priority
from ..policies.selection.allowed_nodes import allowed_nodes
from .topology import together_words

FACTORS = ("partition tier", "fair share", "age", "job size", "QOS", "partition", "TRES", "nice", "our order")
"""What puts one job before another in Slurm's order; sprio's columns have all but the first and the last."""


@dataclass(frozen=True)
class Place:
    """A pending job's place; rows are those of ``View.pending``."""

    ahead: IntArray  #: the competing jobs that come before it, the first one first
    among: int  #: the competing jobs, itself included
    nodes: BoolArray  #: the nodes that it may use and that take jobs now
    free_gpus: int  #: on these
    fits: bool  #: what is free on these holds it
    apart: str = ""  #: what it needs of the network's topology, where free nodes do not lie together so


def order_is_off(mode: str, why_mode: str, powers: Collection[str]) -> str:
    """Return why our order is not in force under *mode*; empty where it is. *why_mode* says what lowered the mode."""
    if mode == "act":
        return "" if "order" in powers else "power.order is off"
    return why_mode or f"daemon.mode is {mode}"


def place_of(view: View, plan: Plan, row: int, off: str) -> Place:
    """Return the place of a pending *row* in the order in force: Slurm's own where ours is *off*."""
    jobs = view.pending
    competes, here = competing(view, row)
    free = view.nodes.free_gpus_of(jobs.gpu_type[row])
    rows = np.flatnonzero(competes)
    order = rows[in_force(view, plan, rows, off)]
    ahead = order[: int(np.flatnonzero(order == row)[0])]
    room, many = _room(view, row, here)
    apart = together_words(view, row, room, many)
    return Place(ahead, len(rows), here, int(free[here].sum()), int(room.sum()) >= many and not apart, apart)


def competing(view: View, row: int) -> tuple[BoolArray, BoolArray]:
    """Select the pending jobs that compete with *row*, itself included, and the nodes that it may use now."""
    jobs = view.pending
    may_use, kind = _allowed(view)
    here = may_use[kind[row]] & view.nodes.usable
    competes = contenders(view) & (may_use & here).any(axis=1)[kind] & _in_reservation_of(jobs, row)
    if jobs.het_job_id[row]:
        competes &= jobs.het_job_id != jobs.het_job_id[row]
    competes[row] = True
    return competes, here


def overlap(view: View) -> tuple[BoolArray, IntArray]:
    """Return which kinds of pending jobs may use a node in common, and the kind of each job."""
    may_use, kind = _allowed(view)
    here = (may_use & view.nodes.usable).astype(np.int64)
    return here @ here.T > 0, kind


def contenders(view: View) -> BoolArray:
    """Select the pending jobs that take free nodes when their turn comes; others are held, limited or not yet due."""
    jobs = view.pending
    due = ~(jobs.eligible_s > view.now_s)
    free = jobs.dependency.map([not text for text in jobs.dependency.names], np.bool_)
    return np.asarray(where_kind(jobs, ReasonKind.WAITS) & free & due & (jobs.priority > 0))


def in_force(view: View, plan: Plan, rows: IntArray, off: str) -> IntArray:
    """Return the order of *rows* as Slurm serves them: by partition tier, priority and job id.

    Where our order is in force, priorities have the points that the plan gives; capped ones leave others ahead.
    """
    jobs = view.pending.take(rows)
    priority = base_priority(jobs) + _points(view, plan, off)[rows]
    return np.lexsort((jobs.job_id, -priority, -view.tiers[rows]))


def slurms_order(view: View, rows: IntArray) -> IntArray:
    """Return the order of *rows* by Slurm's own priorities, without any points of ours."""
    jobs = view.pending.take(rows)
    return np.lexsort((jobs.job_id, -base_priority(jobs), -view.tiers[rows]))


def what_puts_ahead(view: View, plan: Plan, row: int, ahead: IntArray, off: str) -> str:
    """Return the one of ``FACTORS`` that puts most of the jobs *ahead* before *row*; empty where nothing is known.

    For each of them it is the factor with the largest difference.
    """
    jobs = view.pending
    points = _points(view, plan, off)
    known = np.stack(
        [
            jobs.fairshare_points,
            jobs.age_points,
            jobs.size_points,
            jobs.qos_points,
            jobs.partition_points,
            jobs.tres_points,
            -jobs.nice,
            points,
        ]
    )
    before = known[:, ahead] - known[:, [row]]
    tier = view.tiers
    names = np.where(before.max(axis=0) > 0, 1 + before.argmax(axis=0), -1)
    names[tier[ahead] > tier[row]] = 0
    most, _ = Counter(names.tolist()).most_common(1)[0]
    return FACTORS[most] if most >= 0 else ""


def _points(view: View, plan: Plan, off: str) -> IntArray:
    return view.pending.site_points if off else plan.jobs.points


def _in_reservation_of(jobs: JobTable, row: int) -> BoolArray:
    return np.asarray(jobs.reservation.codes == jobs.reservation.codes[row])


def _allowed(view: View) -> tuple[BoolArray, IntArray]:
    """Return the nodes that pending jobs of each kind may use, and the kinds; all where their names make no sense."""
    jobs = view.pending
    try:
        found = allowed_nodes(jobs, view.nodes, view.partitions, jobs.required_nodes, jobs.excluded_nodes)
    except (KeyError, ValueError):  # a partition that went meanwhile, a host list that is none
        return np.ones((1, len(view.nodes)), dtype=np.bool_), np.zeros(len(jobs), dtype=np.int64)
    return found.allowed, found.kind


def _room(view: View, row: int, here: BoolArray) -> tuple[BoolArray, int]:
    """Select the nodes *here* whose free GPUs, CPUs and memory hold an equal part of a job; return of how many."""
    jobs, nodes = view.pending, view.nodes
    gpus = int(jobs.gpus[row])
    largest = max(1, int(nodes.gpus_of(jobs.gpu_type[row])[here].max(initial=1)))
    many = max(1, int(jobs.nodes[row]), -(-gpus // largest))
    room = here & (nodes.free_gpus_of(jobs.gpu_type[row]) >= -(-gpus // many))
    room &= nodes.cpus - nodes.cpus_used >= -(-int(jobs.cpus[row]) // many)
    room &= nodes.memory_mib - nodes.memory_used_mib >= float(jobs.memory_mib[row]) / many
    may = Allowances(nodes, view.partitions).holding(jobs.partition[row], node_part(jobs, row, many))
    room &= may.any(axis=0)
    if jobs.exclusive[row]:
        room &= nodes.cpus_used == 0
    return room, many
