"""Compilation ahead of time for predictions, ``what-if`` and ``simulate``, by small runs of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..policies.contract import find_ordering
from .cluster_spec import ClusterSpec
from .cycle_driver import whole_queue
from .predict_completion import predict_completion
from .run import simulate
from .setup import STOCK, Setup
from .simulated_cluster import SimulatedCluster
from .studies.whatif import Option, compare
from .workload.synthetic import SyntheticSpec, synthetic
from .workload.workload import Workload

JOBS, NODES, GPUS = 60, 4, 8
POLICIES = (STOCK, "fifo", "sjf", "qssf", "srtf")
"""The policies that ``simulate`` compares by default."""


def warm_up() -> None:
    """Run each of them once; their functions are compiled for the types that they always get."""
    jobs, fleet = _jobs(), ClusterSpec.of(NODES, GPUS)
    view, config = _busy(jobs, fleet)
    first = np.arange(len(view.pending))
    predict_completion(view, first, np.zeros_like(first), config)
    compare(view, config, [Option("as now", None), Option("sjf", whole_queue(find_ordering("sjf")))], 30.0)
    for name in POLICIES:
        simulate(jobs, fleet, Setup.of(name))


def _jobs() -> Workload:
    jobs = synthetic(SyntheticSpec(jobs=JOBS, cluster_gpus=NODES * GPUS, load=2.0, median_s=600.0, spread=1.0))
    return replace(jobs, time_limit_s=2 * jobs.runtime_s)


def _busy(jobs: Workload, fleet: ClusterSpec) -> tuple[View, dict[str, str]]:
    """Return a View of a cluster to which half of the jobs have been submitted."""
    cluster = SimulatedCluster(jobs, fleet)
    cluster.advance(float(jobs.submit_s[JOBS // 2]))
    state = cluster.observe()
    view = View(
        cluster.now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        _limits(state.pending),
        _limits(state.running),
    )
    return view, dict(cluster.facts().config)


def _limits(jobs: JobTable) -> Forecast:
    return replace(
        no_forecast(len(jobs)), runtime_s=jobs.time_limit_s, low_s=jobs.time_limit_s / 2, high_s=jobs.time_limit_s
    )
