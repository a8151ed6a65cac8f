"""Migration beside a modelled slurmctld: a job leaves an overloaded node for a calm one, though no job waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import MigrationRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.engine.job_state import alone
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import as_submitted, workload

BEGAN_S, WORK_S, SLOW = 1_000_000.0, 2_000.0, 0.25


def jct_s(powers: frozenset[str]) -> float:
    """The JCT of a job on n1, where it runs at a quarter of its speed; n2 is full for 100 s."""
    loads = {"cpu_load": np.array([32.0, 1.0]), "free_memory_mib": np.full(2, 1_000.0)}
    nodes = nodes_of(2, 1, cpus=np.full(2, 8), memory_mib=np.full(2, 1_000.0), **loads)
    fleet = replace(ClusterSpec.of(2, 1), nodes=replace(nodes, gpu_type=Labels.of(["slow", "calm"])))
    jobs = workload(
        2,
        job_id=[1, 2],
        gpus=[1, 1],
        submit_s=[BEGAN_S, BEGAN_S + 1.0],
        runtime_s=[100.0, WORK_S],
        time_limit_s=[200.0, 10_000.0],
        gpu_type=["calm", ""],
        ckpt=[False, True],
    )
    speeds = {"by_type": np.array([[1.0, 1.0], [SLOW, 1.0]]), "type_kind": np.arange(2), "node_type": np.arange(2)}
    cluster = SimulatedCluster(
        jobs, fleet, submitted=as_submitted(jobs), pace=alone(jobs)._replace(**speeds), checked=True
    )
    rules = Rules(powers=powers, scope="queue", migration=MigrationRules() if "migrate" in powers else None)
    forecast = FixedForecast(jobs.job_id, forecast_of(jobs, Setup.of("fifo"), None))
    CycleDriver(cluster, Policy(find_ordering("fifo"), rules), forecast).run()
    assert cluster.drained
    return float(cluster.model.stage.life.ended_s[1]) - BEGAN_S


def test_a_job_that_leaves_an_overloaded_node_ends_sooner_though_nobody_waits():
    stays_s = jct_s(frozenset({"order"}))
    assert abs(stays_s - WORK_S / SLOW) < 100.0
    assert jct_s(frozenset({"order", "requeue", "migrate"})) < 0.6 * stays_s
