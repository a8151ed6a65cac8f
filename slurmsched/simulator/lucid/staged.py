"""A replay with Lucid's profiler before the queue: nodes set apart where jobs that nobody knows yet run first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...cluster.forecast import Forecast
from ...errors import ConfigError
from ..cluster_spec import ClusterSpec, PackingSetup
from ..run import Replay, forecast_of, simulate
from ..setup import Setup
from ..workload.workload import Workload
from .packing import pack
from .profiler import profiled


@dataclass(frozen=True)
class Profiler:
    """The nodes set apart, and who runs there for how long (Lucid, Algorithm 1)."""

    nodes: int = 1
    widest: int = 8  #: GPUs; wider jobs are profiled where they run
    limit_s: float = 100.0
    patience_s: float = 600.0  #: who has waited so long goes on unprofiled
    restart_s: float = 62.0  #: what it costs to begin anew in the queue, beside all that was done


def profiled_first(jobs: Workload, fleet: ClusterSpec, setup: Setup, *, learnt: Forecast | None = None) -> Replay:
    """The replay of a setup with ``profile_nodes``; ConfigError where it cannot have any."""
    if setup.ordering.name != "lucid" or setup.executor != "direct" or fleet.sharing is None:
        raise ConfigError(
            "profile_nodes are for the ordering lucid under the executor direct, on a cluster with [sharing]"
        )
    if setup.sharing:
        raise ConfigError(
            "profile_nodes go with pairs that the ordering lucid makes itself: leave out sharing and presets with it"
        )
    node_count = len(fleet.nodes) - setup.profile_nodes
    widest, room = int(jobs.gpus.max(initial=0)), int(fleet.nodes.gpus[: max(0, node_count)].sum())
    if node_count < 1 or room < widest:
        raise ConfigError(
            f"profile_nodes {setup.profile_nodes} of {len(fleet.nodes)} nodes leave {room} GPUs to the queue, and a "
            f"job asks for {widest}"
        )
    forecast = forecast_of(jobs, setup, learnt)
    packing = pack(jobs, fleet.sharing, forecast.runtime_s, uneven=setup.wide_hosts)
    profiler = Profiler(setup.profile_nodes, setup.profile_gpus, setup.profile_s, restart_s=setup.restart_s)
    return staged(jobs, fleet, setup, forecast, packing, profiler)


def staged(
    jobs: Workload, fleet: ClusterSpec, setup: Setup, forecast: Forecast, packing: PackingSetup, profiler: Profiler
) -> Replay:
    """A replay where jobs that *packing* does not know when they come go through *profiler* first, on the last nodes.

    A job that ends there is done. Another begins anew in the queue, known; its start is then that of this second run.
    """
    node_count = len(fleet.nodes) - profiler.nodes
    new = np.flatnonzero(packing.profiled_s > 0)
    first = profiled(
        jobs.take(new),
        int(fleet.nodes.gpus[node_count:].sum()),
        widest=profiler.widest,
        limit_s=profiler.limit_s,
        patience_s=profiler.patience_s,
    )
    ran, done = np.zeros(len(jobs), np.bool_), np.zeros(len(jobs), np.bool_)
    ran[new], done[new] = first.ran, first.done
    come_s = jobs.submit_s.copy()
    come_s[new] = np.where(np.isnan(first.left_s), come_s[new], first.left_s)
    rows = np.flatnonzero(~done)
    rows = rows[np.argsort(come_s[rows], kind="stable")]
    runtime_s = jobs.runtime_s + np.where(ran, profiler.restart_s, 0.0)
    with_profiles = replace(
        packing,
        profiled_s=np.where(ran, 0.0, packing.profiled_s)[rows],
        told_s=None if packing.told_s is None else packing.told_s[rows],
    )
    rest = simulate(
        replace(jobs, submit_s=come_s, runtime_s=runtime_s).take(rows),
        replace(fleet, nodes=fleet.nodes.take(slice(0, node_count))),
        setup,
        learnt=forecast.take(rows),
        packing=with_profiles,
    )
    start_s, end_s = come_s - jobs.runtime_s, come_s.copy()
    spread, stops = np.ones(len(jobs), np.int64), (ran & ~done).astype(np.int64)
    start_s[rows], end_s[rows], spread[rows] = rest.start_s, rest.end_s, rest.spread
    stops[rows] += rest.stops
    return Replay(setup, fleet, jobs, start_s, end_s, spread, stops, forecast.runtime_s)
