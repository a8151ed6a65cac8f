"""Pollux (Qiao et al., OSDI'21): the sizes of all jobs with the best power mean of their speed-ups.

The speed-up of a job is its goodput over that on a fair share of the cluster. There are few sizes (``packing.sizes``),
so that the best choice among them is found exactly, and no two jobs that spread need to share a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.ties import in_points
from ...cluster.training import Allocations, TrainingView
from ...errors import ConfigError
from ...policies.contract import scaling
from ...policies.size_choice import LEAST, POLLUX_POWER, after_restarts, cheapest, restart_factor
from .goodput import goodputs_of
from .packing import packed, sizes


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
        chosen = cheapest(
            speedups(view, columns) ** POLLUX_POWER, gpus, view.jobs.most_gpus, int(view.nodes.gpus.sum())
        )
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
    share = np.where(found[:, count:] > 0, found[:, count:], np.maximum(best, LEAST)) @ (of_type / of_type.sum())
    share = in_points(share)
    speedup = found[:, :count] / share[:, None]
    factor = restart_factor(view.now_s - jobs.submit_s, jobs.restarts, view.restart_s)
    has = (jobs.held @ np.eye(len(of_type), dtype=np.int64)[reports.node_type])[:, columns[0]]
    restarts = (jobs.held.sum(axis=1) > 0)[:, None] & (has != columns[2])
    return after_restarts(speedup, restarts, factor)
