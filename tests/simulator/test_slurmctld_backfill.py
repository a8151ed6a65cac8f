"""The plan of slurmctld's backfill: whole nodes, multiples of bf_resolution, and the partitions of each tier."""

from __future__ import annotations

import numpy as np
from simulator.worlds import modelled_slurm, trace

from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig

PLAIN = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)
LAB = SlurmctldConfig(batch_sched_delay_s=0.0, bf_interval_s=10.0)
BOTH = "profile,gpu"


Rows = tuple[tuple[float, float, int, float], ...]
"""Jobs as (submit, runtime, GPUs, limit)."""


def slurm(rows: Rows, fleet: ClusterSpec, rules: SlurmctldConfig, **columns: object) -> SimulatedCluster:
    limits = {"time_limit_s": [row[3] for row in rows], "nodes": np.ones(len(rows))}
    return modelled_slurm(trace(*(row[:3] for row in rows), **limits, **columns), fleet, SlurmConf(rules, PLAIN))


def starts_s(
    rows: Rows, fleet: ClusterSpec | None = None, rules: SlurmctldConfig = LAB, **columns: object
) -> list[float]:
    """The starts of jobs on *fleet*, one node of four GPUs by default."""
    cluster = slurm(rows, fleet or ClusterSpec.of(1, 4), rules, **columns)
    cluster.advance(np.inf)
    return cluster.model.stage.life.first_s.tolist()


def tiers() -> ClusterSpec:
    """A node of ``gpu`` and one of ``profile``, which has the higher tier."""
    nodes = nodes_of(2, 4, partitions=["gpu", "profile"])
    both = partition_of("gpu", nodes, tier=np.array([1])).joined(partition_of("profile", nodes, tier=np.array([2])))
    return ClusterSpec(nodes, both, ClusterSpec.of(1, 1).qos)


def test_a_planned_job_keeps_its_node_whole():
    rows = (0, 90, 3, 100), (1, 50, 2, 600), (2, 50, 1, 600)
    assert starts_s(rows) == [0, 90, 90]
    assert starts_s(rows, rules=LAB._replace(whole_nodes=False))[2] < 90


def test_a_plan_begins_at_a_multiple_of_the_resolution():
    """The third job outlasts the planned start by two seconds of a minute."""
    rows = (0, 90, 3, 600), (1, 50, 4, 600), (2, 50, 1, 600)
    assert starts_s(rows) == [0, 90, 140]


def test_a_job_of_several_partitions_is_planned_in_each_tier():
    """Planned in one partition alone, it would leave the other to jobs behind it."""
    rows = (0, 90, 3, 600), (0, 90, 3, 600), (1, 50, 2, 600), (2, 50, 1, 600), (2, 50, 1, 600)
    partition = ["gpu", "profile", BOTH, "gpu", BOTH]
    assert min(starts_s(rows, fleet=tiers(), partition=partition)[3:]) >= 90


def test_in_the_higher_tier_nobody_passes_a_job_that_does_not_fit():
    """The third job fits there, but the second stops that partition, and is served in the other one."""
    rows = (0, 90, 3, 600), (1, 90, 2, 600), (1, 90, 1, 600)
    cluster = slurm(rows, tiers(), LAB, partition=["profile", BOTH, BOTH])
    cluster.advance(5.0)
    assert dict(zip(cluster.observe().running.job_id.tolist(), cluster.observe().running.node_list, strict=True)) == {
        1: "n2",
        2: "n1",
        3: "n1",
    }


def test_the_end_of_an_epilog_wakes_the_main_loop_at_once():
    """Without an epilog, slurmctld checks once a second."""
    rows = (0, 12.3, 4, 600), (1, 10, 4, 600)
    assert starts_s(rows) == [0, 13]
    assert starts_s(rows, rules=SlurmConf.of({"Epilog": "/bin/true"}).rules) == [0, 12.3]
    assert starts_s(rows, rules=SlurmConf.of({"Epilog[0]": "/bin/true"}).rules) == [0, 12.3]
    assert starts_s(rows, rules=SlurmConf.of({"Epilog": ""}).rules) == [0, 13]
