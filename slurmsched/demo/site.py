"""A site for looking around: a modelled Slurm with two kinds of nodes, a maintenance, and weeks of drawn jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.columns import Labels, table_of
from ..cluster.jobs import JobTable
from ..cluster.nodes import NodeTable, PartitionTable
from ..cluster.records.profiles import NodeProfile
from ..cluster.reservations import ReservationTable
from ..cluster.state import ClusterState
from ..simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from ..simulator.simulated_cluster import SimulatedCluster
from ..simulator.workload.synthetic import SyntheticSpec, synthetic
from ..simulator.workload.synthetic_users import SyntheticUsers
from ..simulator.workload.workload import Workload

DAY_S = 86_400.0
FIRST_S = 1_793_577_600.0  #: Monday 2 November 2026, 00:00 UTC: the site's first moment
MAINTENANCE_S = (3.55 * DAY_S, 3.8 * DAY_S)  #: from the first moment on
PARTITIONS = ("train", "dev")
ACCOUNTS = ("vision", "speech", "robotics", "biology")
IDLE_EVERY = 14
USERS = ("ada", "ben", "cleo", "dan", "eve", "finn", "gita", "hugo", "iris", "jon", "kim", "lea")
CONFIG = {
    "ClusterName": "demo",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityMaxAge": "7-00:00:00",
    "PriorityWeightJobSize": "0",
}


@dataclass
class DemoSite(SimulatedCluster):
    """The port to the modelled Slurm, with nodes that are switched off or drained beside those that run jobs."""

    def observe(self) -> ClusterState:
        """Return all jobs and nodes at once."""
        state = super().observe()
        nodes = state.nodes.changed(state=_states(state.nodes)).joined(_AWAY)
        return replace(state, nodes=nodes, partitions=state.partitions.joined(_BURST))


def demo_site(days: float, owner: str) -> DemoSite:
    """Return the site at its first moment, with jobs for some *days*; those of one user belong to *owner*."""
    jobs = _jobs(days, owner)
    site = DemoSite(jobs, _fleet(), config=CONFIG)
    site.advance(FIRST_S)
    return site


def busy_profiles(profiles: Iterable[NodeProfile]) -> list[NodeProfile]:
    """Return the profiles of jobs that use their GPUs."""
    return [one for one in profiles if one.job_id % IDLE_EVERY != 5]


def idle_profiles(running: JobTable, now_s: float) -> list[NodeProfile]:
    """Return what nodes say of running jobs that use none of their GPUs, one in some from half an hour on."""
    idle = (running.job_id % IDLE_EVERY == 5) & (running.gpus > 0) & (now_s - running.started_s > 1800.0)
    return [
        NodeProfile(
            job_id=int(running.job_id[row]),
            restart=int(running.restarts[row]),
            node="",
            start_s=int(running.started_s[row]),
            end_s=int(now_s),
            gpus=int(running.gpus[row]),
            measured_s=now_s - float(running.started_s[row]),
            process_share=0.1,
            gpu_util=0.02,
            gpu_util_sd=0.0,
            memory_util=0.0,
            memory_mib=400.0 * int(running.gpus[row]),
            power_w=60.0 * int(running.gpus[row]),
            unstable=0.0,
            idle_gpus=float(running.gpus[row]),
            idle_since_s=float(running.started_s[row]) + 600.0,
        )
        for row in np.flatnonzero(idle).tolist()
    ]


def _fleet() -> ClusterSpec:
    large = _nodes("gpu", 6, 8, "a100", "train")
    small = _nodes("dev", 3, 4, "l40s", "dev")
    partitions = partition_of("train", "gpu[01-06]", default=np.ones(1, dtype=np.bool_)).joined(
        partition_of("dev", "dev[01-03]")
    )
    kept = table_of(
        ReservationTable, 1, {},
        {"name": ["cooling"], "start_s": [FIRST_S + MAINTENANCE_S[0]], "end_s": [FIRST_S + MAINTENANCE_S[1]],
         "nodes": ["gpu[05-06]"], "whole": [True], "flags": ["MAINT"]},
    )  # fmt: skip
    return ClusterSpec(large.joined(small), partitions, ClusterSpec.of(1, 1).qos, reservations=kept)


def _nodes(name: str, count: int, gpus: int, gpu_type: str, partition: str, **columns: object) -> NodeTable:
    texts = {"name": [f"{name}{number:02}" for number in range(1, count + 1)], "partitions": [partition] * count,
             "gpu_type": [gpu_type] * count}  # fmt: skip
    labels = {key: Labels.of(values) for key, values in texts.items()}
    return nodes_of(count, gpus, **(labels | columns))


def _states(nodes: NodeTable) -> Labels:
    """Return the states of nodes that Slurm would show for the GPUs in use."""
    words = {(False, False): "IDLE", (True, False): "MIXED", (True, True): "ALLOCATED"}
    used = zip((nodes.gpus_used > 0).tolist(), (nodes.gpus_used >= nodes.gpus).tolist(), strict=True)
    return Labels.of([words[one] for one in used])


def _away_nodes() -> NodeTable:
    off = _nodes("burst", 2, 4, "l40s", "burst", state=Labels.of(["idle~"] * 2), usable=np.ones(2, dtype=np.bool_))
    off = off.changed(state=Labels.of(["IDLE+CLOUD+POWERED_DOWN"] * 2))
    drained = _nodes("old", 1, 8, "v100", "train", state=Labels.of(["IDLE+DRAIN"]),
                     usable=np.zeros(1, dtype=np.bool_), down_reason=Labels.of(["fan 3 failed"]))  # fmt: skip
    return off.joined(drained)


def _jobs(days: float, owner: str) -> Workload:
    """Draw jobs whose users are known by name, with the GPU use that nodes would measure."""
    random = np.random.default_rng(4)
    spec = SyntheticSpec(int(150 * days), 60, 0.9, 4, arrivals="diurnal", median_s=2400.0, spread=1.3,
                         longest_s=1.5 * DAY_S, gpu_mix=((1, 0.45), (2, 0.2), (4, 0.2), (8, 0.13), (16, 0.02)),
                         habits=SyntheticUsers(users=len(USERS)), start_s=FIRST_S)  # fmt: skip
    jobs = synthetic(spec, random)
    small = (jobs.gpus <= 2) & (random.random(len(jobs)) < 0.35)
    names = [owner if one == USERS[5] else one for one in USERS]
    who = [int(text[1:]) % len(USERS) for text in jobs.user.names]
    stretch = days * DAY_S / float(jobs.submit_s[-1] - FIRST_S)
    busy = random.beta(3.0, 1.3, len(jobs.name.names))[jobs.name.codes]
    return jobs.changed(
        submit_s=np.round(FIRST_S + (jobs.submit_s - FIRST_S) * stretch),
        runtime_s=np.round(jobs.runtime_s * stretch),
        time_limit_s=np.minimum(np.ceil(jobs.time_limit_s * stretch / 1800.0) * 1800.0, 3 * DAY_S),
        user=jobs.user.renamed(names[number] for number in who),
        account=jobs.user.renamed(ACCOUNTS[number % len(ACCOUNTS)] for number in who),
        partition=Labels(small.astype(np.int64), PARTITIONS),
        gpu_util=busy,
        memory_util=0.5 * busy,
        gpu_memory_mib=np.round(70_000.0 * random.beta(2.0, 2.5, len(jobs.name.names))[jobs.name.codes]),
        ckpt=random.random(len(jobs)) < 0.3,
    )


_AWAY = _away_nodes()
_BURST: PartitionTable = partition_of("burst", "burst[01-02]")
