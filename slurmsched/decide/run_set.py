"""The run-set: the jobs that start now, on which nodes, and the running jobs that yield to them. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.actions import Action, Preempt, Start
from ..cluster.columns import BoolArray, IntArray, Labels
from ..cluster.forecast import Forecast
from ..cluster.state import View
from ..policies.admission import find_admission
from ..policies.contract import PLACEMENTS, SELECTIONS, Ordering
from ..policies.selection.free_nodes import FreeNodes, RunSet
from .ordering.ranking import base_priority
from .rules import Composition


def admitted(view: View, composition: Composition | None) -> BoolArray:
    """Select the pending jobs that are considered at all."""
    if composition is None:
        return np.ones(len(view.pending), dtype=np.bool_)
    selected: BoolArray = find_admission(composition.admission)(view)
    return selected


def run_set(view: View, ranked: IntArray, ordering: Ordering, composition: Composition) -> RunSet:
    """Choose among *ranked* pending rows, and among the running jobs if the selection preempts."""
    selection = SELECTIONS.find(composition.selection)
    nodes = FreeNodes(view, PLACEMENTS.find(composition.placement))
    numbers = ranked + len(view.running)
    if selection.preempts:
        numbers = _with_running(view, ranked, ordering)
    selection(view, numbers, nodes)
    return nodes.run_set()


def start_wishes(view: View, chosen: RunSet) -> list[Action]:
    """Return the actions that carry out a run-set: first the jobs that yield, then those that start."""
    yields: list[Action] = [Preempt(job) for job in view.running.job_id[chosen.yields].tolist()]
    starts = zip(view.pending.job_id[chosen.rows].tolist(), chosen.nodes, strict=True)
    return [*yields, *(Start(job, ",".join(f"{name}:{gpus}" for name, gpus in nodes)) for job, nodes in starts)]


def _with_running(view: View, ranked: IntArray, ordering: Ordering) -> IntArray:
    """Return the numbers of running jobs and *ranked* pending ones by their keys, running ones first where equal."""
    waits = np.concatenate([np.zeros(len(view.running), dtype=np.int64), np.ones(len(ranked), dtype=np.int64)])
    pending = view.take(ranked)
    jobs = view.running.joined(pending.pending)
    every = replace(view, pending=jobs, forecast=_joined(view.forecast_running, pending.forecast))
    key = ordering(every)
    rows = np.lexsort((jobs.job_id, -base_priority(jobs), waits, np.where(np.isnan(key), np.inf, key)))
    numbers = np.concatenate([np.arange(len(view.running)), ranked + len(view.running)])
    return numbers[rows]


def _joined(one: Forecast, other: Forecast) -> Forecast:
    names = (*one.source.names, *other.source.names)
    source = Labels(np.concatenate([one.source.codes, other.source.codes + len(one.source.names)]), names)
    columns = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])
        for name in ("runtime_s", "low_s", "high_s", "floor_s")
    }
    return replace(one, source=source, **columns)
