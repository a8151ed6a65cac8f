"""Partitions of a cluster that has none of its own: the nodes that measure new jobs, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cluster.columns import Labels
from ..cluster.text.hostlist import fold
from ..decide.rules import ProfilingRules
from ..errors import ConfigError
from .cluster_spec import ClusterSpec, partition_of
from .setup import Setup
from .workload.workload import Workload

PROFILE, MAIN = "profile", "main"


def divided(fleet: ClusterSpec, counts: Mapping[str, int], profile: str) -> ClusterSpec:
    """Return *fleet* with its nodes, in order, in partitions of *counts* nodes each; *profile* has a higher tier."""
    nodes, names = fleet.nodes, tuple(counts)
    codes = np.repeat(np.arange(len(names)), list(counts.values()))
    partitions = fleet.partitions
    for code, name in enumerate(names):
        if counts[name]:
            hosts = fold(nodes.name.take(np.flatnonzero(codes == code)))
            partitions = partitions.joined(partition_of(name, hosts, tier=[2 if name == profile else 1]))
    return replace(fleet, nodes=replace(nodes, partitions=Labels(codes, names)), partitions=partitions)


def routed(jobs: Workload, fleet: ClusterSpec, home: str, profile: str, most_gpus: int) -> Workload:
    """Return *jobs* that request *home*; those of 1 to *most_gpus* GPUs also *profile*, as ``job_submit.lua`` has them.

    No job requests *profile* that needs more GPUs than it has.
    """
    in_profile = fleet.nodes.partitions.map([name == profile for name in fleet.nodes.partitions.names], np.bool_)
    most = min(most_gpus, int(fleet.nodes.gpus[in_profile].sum()))
    measured = (jobs.gpus > 0) & (jobs.gpus <= most)
    return replace(jobs, partition=Labels(measured.astype(np.int64), (home, f"{profile},{home}")))


def with_profiling(jobs: Workload, fleet: ClusterSpec, setup: Setup) -> tuple[Workload, ClusterSpec, ProfilingRules]:
    """Return jobs and cluster with the last nodes as the profiling partition of *setup*, and its rules.

    ConfigError where the cluster has partitions of its own, or the other nodes are too few for the widest job.
    """
    if len(fleet.partitions):
        raise ConfigError("profile_nodes are for a cluster without [[partitions]]; with them, --config says which one")
    node_count = len(fleet.nodes) - setup.profile_nodes
    widest, room = int(jobs.gpus.max(initial=0)), int(fleet.nodes.gpus[: max(0, node_count)].sum())
    if node_count < 1 or room < widest:
        raise ConfigError(
            f"profile_nodes {setup.profile_nodes} of {len(fleet.nodes)} nodes leave {room} GPUs to the queue, and a "
            f"job asks for {widest}"
        )
    fleet = divided(fleet, {MAIN: node_count, PROFILE: setup.profile_nodes}, PROFILE)
    jobs = routed(jobs, fleet, MAIN, PROFILE, setup.profile_gpus)
    return jobs, fleet, ProfilingRules(PROFILE, n_max=setup.profile_gpus, t_s=setup.profile_s)
