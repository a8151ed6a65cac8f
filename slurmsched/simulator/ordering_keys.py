"""The keys of an ordering for the jobs of a trace: computed once as functions of service, or at each decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray, IntArray, table_of
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable, job_table
from ..cluster.nodes import NodeTable, PartitionTable, QosTable
from ..cluster.state import View
from ..policies.contract import Ordering
from .cluster_spec import ClusterSpec
from .engine.keys import Keys
from .machine.direct import Ask, RanS
from .workload.workload import Workload, as_submitted


def keys_of(jobs: Workload, ordering: Ordering, forecast: Forecast) -> Keys:
    """Compute the keys of all jobs as a function of the time they ran, by calling the ordering.

    An ordering declares how its key depends on attained service: not at all, linearly, or in steps (GPU-seconds). Two
    calls on each stretch between two steps therefore determine it.
    """
    view = all_pending(jobs, forecast)
    bounds = (0.0, *ordering.steps)
    at, slope = np.empty((len(bounds), len(jobs))), np.zeros(len(jobs))
    for level, bound in enumerate(bounds):
        ran_s = bound / jobs.gpus * (1 + 1e-12)
        at[level] = _asked_keys(ordering, view, ran_s)
        if ordering.changes == "while_running":
            upper = bounds[level + 1] if level + 1 < len(bounds) else np.inf
            further_s = np.minimum(1.0, (upper - bound) / jobs.gpus / 2)
            slope = (_asked_keys(ordering, view, ran_s + further_s) - at[level]) / further_s
            at[level] -= slope * ran_s
    return Keys(at, slope, np.array(ordering.steps, dtype=np.float64))


def key_source(jobs: Workload, fleet: ClusterSpec, ordering: Ordering, forecast: Forecast) -> Ask:
    """Return the ordering as a function for each decision, which gives it the present jobs in their present state."""
    view = replace(all_pending(jobs, forecast), nodes=fleet.nodes)

    def keys(now_s: float, rows: IntArray, beside: IntArray, ran_s: RanS) -> FloatArray:
        running = _with_runtimes(view.pending.take(beside), ran_s(beside))
        present = replace(view.take(rows), now_s=now_s, running=running, forecast_running=forecast.take(beside))
        return _asked_keys(ordering, present, ran_s(rows))

    return keys


def all_pending(jobs: Workload, forecast: Forecast) -> View:
    """Return a View with every job of the trace pending, with its forecast."""
    return View(
        0.0,
        as_submitted(jobs),
        job_table(0),
        table_of(NodeTable, 0, {}, {}),
        table_of(PartitionTable, 0, {}, {}),
        table_of(QosTable, 0, {}, {}),
        forecast,
        no_forecast(0),
    )


def _asked_keys(ordering: Ordering, view: View, ran_s: FloatArray) -> FloatArray:
    return np.asarray(ordering(replace(view, pending=_with_runtimes(view.pending, ran_s))), dtype=np.float64)


def _with_runtimes(jobs: JobTable, ran_s: FloatArray) -> JobTable:
    return replace(jobs, ran_s=ran_s.copy())
