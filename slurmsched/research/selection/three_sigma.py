"""The selection of 3Sigma (Park et al., EuroSys'18): a lease program for jobs that run to their end once started."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.state import View
from ...policies.contract import selection
from ...policies.deadlines.lease_problem import LeaseProblem
from ...policies.deadlines.slot_prices import planned
from ...policies.selection.built_in import run_in_order
from ...policies.selection.free_nodes import FreeNodes

LEASE_S = 1200.0
"""Seconds of a slot of the plan."""

GAP = 0.05
"""A plan this close to the best is taken: the next decision makes another one."""

_ROUNDING_S = 1e-6


@selection("3sigma", preempts=True)
def three_sigma(view: View, order: IntArray, nodes: FreeNodes) -> None:
    """The plan that meets most deadlines starts jobs, which then run to their end; the others fill in and yield."""
    jobs = view.running.joined(view.pending)
    waiting_s = np.maximum(view.forecast.rank_s - view.pending.ran_s, 1.0)
    left_s, ahead_s = np.concatenate([view.remaining.median_s, waiting_s]), jobs.deadline_s - view.now_s
    able = np.isfinite(ahead_s) & (left_s <= ahead_s + _ROUNDING_S) & (jobs.gpus > 0)
    runs = np.arange(len(jobs)) < len(view.running)
    first = runs & able
    rows = order[able[order]]
    if len(rows):
        capacity = int(view.nodes.gpus[view.nodes.usable].sum())
        problem = _problem(jobs.gpus[rows], left_s[rows], ahead_s[rows], runs[rows], capacity)
        first[rows[planned(problem, GAP).grants[:, 0]]] = True
    run_in_order(order[np.lexsort((~runs[order], ~first[order]))], nodes)


def _problem(gpus: IntArray, left_s: FloatArray, ahead_s: FloatArray, runs: BoolArray, capacity: int) -> LeaseProblem:
    """Return the lease problem of jobs that can meet their deadline.

    A deadline that rounding down to whole slots would put out of a job's reach is rounded up.
    """
    leases = np.ceil(left_s / LEASE_S).astype(np.int64)
    slots = np.maximum(np.floor(ahead_s / LEASE_S).astype(np.int64), leases)[:, None]
    nothing = np.full(len(gpus), -1)
    blocks = np.full((1, int(slots.max())), capacity)
    return LeaseProblem(gpus, leases, ~np.zeros_like(runs), runs, nothing, slots, np.ones(slots.shape), blocks)
