"""Pollux (Qiao et al., OSDI'21): the sizes of all jobs with the best power mean of their speed-ups.

The speed-up of a job is its goodput over that on a fair share of the cluster. There are few sizes (``packing.sizes``),
so that the best choice among them is found exactly, and no two jobs that spread need to share a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.ties import in_points
from ...cluster.training import Allocations, TrainingView
from ...errors import ConfigError
from ..compiled import compiled
from ..contract import scaling
from .goodput import goodputs_of
from .packing import packed, sizes

POWER = -1.0
_LEAST = 1e-3  #: of a restart factor, and of a speed-up
_WAITING = 1e3  #: cost of a job without GPUs, over that of the slowest one with some


@dataclass(frozen=True)
class Pollux:
    """The sizes with the best power mean; with *avoidance* no two jobs on several nodes share one of them."""

    avoidance: bool = True

    def __call__(self, view: TrainingView) -> Allocations:
        """Return the allocation of each job; ConfigError where there are GPUs of several types."""
        assert view.goodputs is not None
        if view.goodputs.node_type.any():
            raise ConfigError("scaling 'pollux' knows one type of GPUs; accepted are nodes of one type, or sia")
        columns = configurations(view)
        gpus = columns[2]
        chosen = cheapest(speedups(view, columns) ** POWER, gpus, view.jobs.most_gpus, int(view.nodes.gpus.sum()))
        wanted = np.where(chosen < 0, 0, gpus[chosen])
        return Allocations(packed(wanted, view.jobs.held, view.nodes.gpus, shared=not self.avoidance))


def _tuned(settings: Mapping[str, str]) -> Pollux:
    avoidance = settings.get("avoidance", "")
    if set(settings) != {"avoidance"} or avoidance not in ("yes", "no"):
        raise ConfigError("pollux: accepted is avoidance=yes or no: whether jobs on several nodes share none of them")
    return Pollux(avoidance == "yes")


@scaling("pollux", needs=("goodputs",), own_batch=True, tuned=_tuned, defaults="avoidance=yes")
def pollux(view: TrainingView) -> Allocations:
    """The sizes with the best power mean of goodputs over those on a fair share (Pollux, OSDI'21)."""
    return Pollux()(view)


def configurations(view: TrainingView) -> IntArray:
    """Return what a job may have: three rows with the type of GPUs, the nodes and the GPUs."""
    assert view.goodputs is not None
    kinds = view.goodputs.node_type
    found = [sizes(view.nodes.gpus[kinds == kind]) for kind in range(int(kinds.max(initial=0)) + 1)]
    return np.concatenate([[np.full(len(gpus), kind), nodes, gpus] for kind, (nodes, gpus) in enumerate(found)], axis=1)


def speedups(view: TrainingView, columns: IntArray) -> FloatArray:
    """Return the speed-up of each job (row) in each of the ``configurations``, less what a restart costs it.

    A restart costs a part of its life so far, on average. Where there are several types of GPUs, the fair share is of
    each, for a part of the time; where it is more than a job can use, the best of what the job can use counts.
    """
    jobs, reports, node_gpus = view.jobs, view.goodputs, view.nodes.gpus
    assert reports is not None
    of_type = np.bincount(reports.node_type, node_gpus)
    fair = max(int(node_gpus.sum()) // max(len(jobs), 1), 1)
    fairly = [(kind, -(-fair // int(node_gpus[reports.node_type == kind].max())), fair) for kind in range(len(of_type))]
    asked = np.concatenate([columns, np.array(fairly).T], axis=1)
    found = in_points(goodputs_of(reports.speed, reports.grad_sqr, reports.grad_var, reports.limits, asked))
    found[~reports.known] = asked[2]
    count = columns.shape[1]
    best = np.stack([found[:, :count][:, columns[0] == kind].max(axis=1) for kind in range(len(of_type))], axis=1)
    share = np.where(found[:, count:] > 0, found[:, count:], np.maximum(best, _LEAST)) @ (of_type / of_type.sum())
    share = in_points(share)
    speedup = found[:, :count] / share[:, None]
    factor = restart_factor(view.now_s - jobs.submit_s, jobs.restarts, view.restart_s)
    has = (jobs.held @ np.eye(len(of_type), dtype=np.int64)[reports.node_type])[:, columns[0]]
    restarts = (jobs.held.sum(axis=1) > 0)[:, None] & (has != columns[2])
    return after_restarts(speedup, restarts, factor)


def restart_factor(age_s: FloatArray, restarts: IntArray, restart_s: float | FloatArray) -> FloatArray:
    """Return the part of its life so far that a job did not spend on restarts, if it restarts once more."""
    return np.maximum(np.maximum(age_s - restarts * restart_s, 0.0) / (age_s + restart_s), _LEAST)


def after_restarts(speedup: FloatArray, restarts: BoolArray, factor: FloatArray) -> FloatArray:
    """Return the speed-ups of each job (row), less its *factor* where it *restarts*; none is 0, so all have powers."""
    after: FloatArray = np.where(restarts, speedup * factor[:, None], speedup)
    return np.maximum(after, _LEAST)


def cheapest(costs: FloatArray, gpus: IntArray, most: IntArray, total: int) -> IntArray:
    """Return the size (column of *costs*) of each job, -1 for none, with the least sum of *costs* on *total* GPUs.

    *gpus* are those of each size, *most* those of each job.
    """
    allowed = gpus <= most[:, None]
    waiting = _WAITING * float(costs[allowed].max(initial=1.0))
    return _knapsack(np.where(allowed, in_points(costs), np.inf), gpus, waiting, total)


@compiled
def _knapsack(costs: FloatArray, gpus: IntArray, waiting: float, total: int) -> IntArray:
    """Choose a size for each job by dynamic programming over the GPUs that are left."""
    count, kinds = costs.shape
    least = np.zeros(total + 1)
    chosen = np.full((count, total + 1), -1, dtype=np.int64)
    for row in range(count):
        now = least + waiting
        for kind in range(kinds):
            if costs[row, kind] < waiting:
                for left in range(gpus[kind], total + 1):
                    cost = least[left - gpus[kind]] + costs[row, kind]
                    if cost < now[left]:
                        now[left] = cost
                        chosen[row, left] = kind
        least = now
    found, left = np.full(count, -1, dtype=np.int64), total
    for row in range(count - 1, -1, -1):
        found[row] = chosen[row, left]
        if found[row] >= 0:
            left -= gpus[found[row]]
    return found
