"""CPUs and memory of jobs beside a modelled slurmctld: they bind it, and jobs that ask for too much let others in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.actions import RestoreSize, Rightsize
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.node_request import read_request
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import RightsizingRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import as_submitted, workload

COUNT = 9
RULES = Rules(powers=frozenset({"order", "rightsize"}), scope="queue", rightsizing=RightsizingRules())


def cluster_of(comment: str) -> SimulatedCluster:
    """One node of 8 CPUs and 4 GPUs, full for 100 s, and eight jobs for one GPU that ask for six CPUs each."""
    one = ClusterSpec.of(1, 4)
    fleet = replace(one, nodes=replace(one.nodes, cpus=np.array([8]), memory_mib=np.array([16_000.0])))
    jobs = workload(
        COUNT,
        job_id=np.arange(1, COUNT + 1),
        gpus=[4] + [1] * (COUNT - 1),
        cpus=[8] + [6] * (COUNT - 1),
        memory_mib=[16_000.0] + [12_000.0] * (COUNT - 1),
        submit_s=[0.0] * COUNT,
        runtime_s=[100.0] + [600.0] * (COUNT - 1),
        time_limit_s=[200.0] + [1200.0] * (COUNT - 1),
    )
    said = job_table(COUNT, comment=[""] + [comment] * (COUNT - 1))
    tokens = {
        name: getattr(said, name) for name in ("comment", "cpus_least", "cpus_best", "mem_least_mib", "mem_best_mib")
    }
    return SimulatedCluster(jobs, fleet, submitted=as_submitted(jobs).changed(**tokens), checked=True, sizes=True)


def played(cluster: SimulatedCluster, rules: Rules = RULES) -> tuple[float, list[str]]:
    """The mean JCT, and the kinds of all writes to jobs' sizes."""
    writes: list[str] = []
    forecast = FixedForecast(cluster.jobs.job_id, forecast_of(cluster.jobs, Setup.of("sjf"), None))

    def watch(report) -> None:
        writes.extend(type(one).__name__ for one in report.plan.actions if isinstance(one, Rightsize | RestoreSize))

    CycleDriver(cluster, Policy(find_ordering("fifo"), rules), forecast, every_s=15.0, watch=watch).run()
    return float(cluster.model.stage.life.ended_s.mean()), writes


def test_jobs_that_need_less_run_four_at_a_time_in_place_of_one():
    with_tokens, writes = played(cluster_of("slurmsched:cpus=1-6,mem=1G-12G"))
    without, none = played(cluster_of(""))
    assert none == []
    assert set(writes) == {"Rightsize"}
    assert len(writes) == COUNT - 1
    assert with_tokens < 0.5 * without
    assert without == pytest.approx(np.mean([100.0, *(100.0 + 600.0 * np.arange(1, COUNT))]), rel=0.05)


def test_without_the_power_nothing_changes():
    plain = Rules(powers=frozenset({"order"}), scope="queue")
    tokens, writes = played(cluster_of("slurmsched:cpus=1-6,mem=1G-12G"), plain)
    assert writes == []
    assert tokens == played(cluster_of(""), plain)[0]


def test_a_size_binds_the_model_and_so_do_the_owners_numbers_once_they_are_back():
    cluster = cluster_of("")
    cluster.advance(10.0)
    pending = cluster.observe().pending
    own = pending.node_request[0]
    assert read_request(own).node_cpus(1) == 6
    less = "cpus=2,task=2,node=2,mem=4000Mn"
    assert [answer.refused for answer in cluster.act([Rightsize(job, own, own, less) for job in range(2, 6)])] == [
        None
    ] * 4
    assert "changed meanwhile" in (cluster.act([Rightsize(2, own, own, less)])[0].refused or "")
    assert cluster.act([RestoreSize(5, less, own)])[0].refused is None
    asked = cluster.observe().pending
    assert asked.cpus[:5].tolist() == [2, 2, 2, 6, 6]
    assert asked.memory_mib[:4].tolist() == [4000.0, 4000.0, 4000.0, 12_000.0]
    cluster.advance(160.0)
    running = cluster.observe().running
    assert running.job_id.tolist() == [2, 3, 4]
    assert cluster.nodes.cpus_used.tolist() == [6]
    assert cluster.nodes.memory_used_mib.tolist() == [12_000.0]
    assert isinstance(running.node_request, Labels)
