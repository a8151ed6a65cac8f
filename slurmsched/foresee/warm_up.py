"""Compilation ahead of time for promises, predictions, ``what-if`` and ``simulate``, by small runs of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.columns import Labels
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..decide.policy import Policy
from ..decide.rules import DeadlineRules, Rules
from ..policies.contract import find_ordering
from ..simulator.cluster_spec import ClusterSpec
from ..simulator.cycle_driver import whole_queue
from ..simulator.run import simulate
from ..simulator.setup import STOCK, Setup
from ..simulator.simulated_cluster import SimulatedCluster
from ..simulator.workload.synthetic import SyntheticSpec, synthetic
from ..simulator.workload.workload import Workload
from .predict_completion import predict_completion
from .whatif import Option, compare

JOBS, NODES, GPUS = 60, 4, 8
POLICIES = (STOCK, "fifo", "sjf", "qssf", "srtf")
"""The policies that ``simulate`` compares by default."""

PROMISING = Policy(
    find_ordering("sjf"),
    Rules(
        powers=frozenset({"order", "hold", "requeue"}),
        scope="queue",
        deadlines=DeadlineRules(yields=True, slack_s=600.0, long_s=600.0, long_share=0.5, asks_a_day=100),
    ),
)
"""A policy with promises to jobs that can be stopped and to others."""


def warm_up() -> None:
    """Run each of them once; their functions are compiled for the types that they always get."""
    jobs, fleet = _jobs(), ClusterSpec.of(NODES, GPUS)
    view, config = _busy(jobs, fleet)
    first = np.arange(len(view.pending))
    predict_completion(view, first, np.zeros_like(first), config)
    compare(view, config, [Option("as now", None), Option("sjf", whole_queue(find_ordering("sjf")))], 30.0)
    for name in POLICIES:
        simulate(jobs, fleet, Setup.of(name))
    promises()


def promises() -> None:
    """Run the loops of promises once."""
    simulate(_due(_jobs()), ClusterSpec.of(NODES, GPUS), Setup.of_site(PROMISING, 60.0, ""))


def _jobs() -> Workload:
    jobs = synthetic(SyntheticSpec(jobs=JOBS, cluster_gpus=NODES * GPUS, load=2.0, median_s=600.0, spread=1.0))
    return replace(jobs, time_limit_s=2 * jobs.runtime_s)


def _due(jobs: Workload) -> Workload:
    """Return *jobs*, most of which have a deadline, and every other one of which may be stopped."""
    number, anywhere = np.arange(len(jobs)), Labels.of([""] * len(jobs))
    deadline_s = np.where(number % 3, jobs.submit_s + 3 * jobs.runtime_s + 3600.0 * (number % 2), np.inf)
    return replace(jobs, deadline_s=deadline_s, partition=anywhere, best_effort=number % 3 == 0, ckpt=number % 4 == 1)


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
