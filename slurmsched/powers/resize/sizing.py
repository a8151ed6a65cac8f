"""Sizes: jobs that can run on several numbers of GPUs get the one that serves all jobs best. Pure.

A pending job's number is one line for Slurm. A running job saves its work, queues itself again, and is then such a job.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.actions import Action, Resize
from ...cluster.columns import BoolArray, IntArray
from ...cluster.job_limits import JobLimits
from ...cluster.jobs import JobTable
from ...cluster.plan import Standing
from ...cluster.state import View
from ...decide.deadlines.stops import stops_for_sizes
from ...decide.job_nodes import gpus_by_node, plain_request
from ...decide.not_repeated import RESIZE, not_repeated
from ...decide.profiling import both
from ...decide.rules import Rules
from .growth import GpuDivision
from .placement import SizePlacement


@dataclass(frozen=True)
class Sizing:
    """The changes of one decision."""

    resizes: tuple[Action, ...] = ()
    stops: tuple[Action, ...] = ()  #: of running jobs that come back with another number of GPUs


def sizing(view: View, rules: Rules, standings: IntArray, ranked: IntArray, busy: Collection[int]) -> Sizing:
    """Return the changes of the numbers of GPUs of jobs; the pending ones *ranked* are placed in their order.

    Jobs that wait for the end of a hold of ours, such as those just queued again, come last. Jobs in *busy* are being
    stopped already. A job that we changed gets its own number back once it is no longer ours to change.
    """
    jobs, terms = view.pending, rules.resizing
    if not rules.executor.changes_requests or (terms is None and not jobs.own_gpus.any()):
        return Sizing()
    able = resizable(jobs, view, rules) if terms is not None else np.zeros(len(jobs), dtype=np.bool_)
    plain = plain_request(jobs, by_nodes=True) & ~jobs.interactive & ((jobs.nodes <= 1) | (jobs.gpus_each > 0))
    back = [
        Resize(int(jobs.job_id[row]), own, int(jobs.gpus[row]), own, int(jobs.gpus_each[row]))
        for row, own in enumerate(jobs.own_gpus.tolist())
        if own and not able[row] and plain[row]
    ]
    running = resizable(view.running, view, rules)
    view = within_limits(view, able, running)
    if terms is None or not (able.any() or running.any()):
        return Sizing(tuple(back))
    again = able & (standings == Standing.WAITS_FOR_BEGIN) & jobs.held_by_us & (jobs.restarts > 0)
    rows = np.concatenate([ranked[: rules.window], np.flatnonzero(again)])
    placed = SizePlacement(view, terms, able)
    for row in rows.tolist():
        placed.place(row)
    growth = GpuDivision(placed, running & ~np.isin(view.running.job_id, list(busy)), stops_for_sizes(view, rules))
    resizes, stops = growth.changes()
    return Sizing((*back, *resizes), tuple(stops))


def within_limits(view: View, able: BoolArray, running: BoolArray) -> View:
    """Return *view* with the numbers of GPUs of *able* and *running* jobs as far as limits of each allow them."""
    limits = JobLimits(view.limits, view.partitions)
    if not len(view.limits):
        return view

    def bounded(jobs: JobTable, some: BoolArray) -> JobTable:
        least, most, each = jobs.least_gpus.copy(), jobs.most_gpus.copy(), gpus_by_node(jobs)
        for row in np.flatnonzero(some).tolist():
            least[row], most[row] = limits.gpu_bounds(jobs, row, int(least[row]), int(most[row]), int(each[row]))
        return jobs.changed(least_gpus=least, most_gpus=most)

    return replace(view, pending=bounded(view.pending, able), running=bounded(view.running, running))


def resizable(jobs: JobTable, view: View, rules: Rules) -> BoolArray:
    """Select jobs whose owners agreed to several numbers of GPUs and to restarts, and of which nothing else depends
    on that number."""
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    alone = ~jobs.exclusive & (jobs.beside == 0) & (jobs.guest_gpus == 0)
    agreed = jobs.ckpt & jobs.requeueable & ~jobs.off & ~jobs.interactive & ~promised
    sizes = (jobs.least_gpus < jobs.most_gpus) & (jobs.least_gpus <= jobs.gpus) & (jobs.gpus <= jobs.most_gpus)
    by_nodes = rules.resizing is not None and rules.resizing.nodes
    free = ~jobs.required_nodes.nonempty() & ~jobs.reservation.nonempty()
    free &= (gpus_by_node(jobs) == 0) | ~jobs.own_request.nonempty()  # our CPUs and memory are given back first
    found = plain_request(jobs, by_nodes) & alone & agreed & sizes & free
    found &= ~not_repeated(view, jobs, RESIZE)
    if rules.profiling is not None:
        found &= ~both(jobs, rules.profiling)
    return np.asarray(found, dtype=np.bool_)
