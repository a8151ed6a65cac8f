"""Numbers of GPUs beside a modelled slurmctld: it honours them, and the daemon's own decision gains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.actions import AskToStop, Resize
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import comment_columns
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ResizingRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import Workload, as_submitted, workload

SIZES = "slurmsched:gpus=1-4,ckpt"


def cluster_of_one(jobs: Workload, comment: str = SIZES) -> SimulatedCluster:
    """A node of four GPUs, and jobs with a comment."""
    table = as_submitted(jobs)
    submitted = replace(table, ckpt=np.ones(len(jobs), np.bool_))
    comments = Labels.of([comment] * len(jobs))
    submitted = submitted.changed(comment=comments, **comment_columns(comments))
    return SimulatedCluster(jobs, ClusterSpec.of(1, 4), submitted=submitted, checked=True)


def two_jobs() -> SimulatedCluster:
    """One that runs on all four GPUs for 100 s, and one of two that waits."""
    jobs = workload(2, job_id=[1, 2], gpus=[4, 2], submit_s=[0.0, 0.0], runtime_s=[100.0, 100.0])
    cluster = cluster_of_one(jobs)
    cluster.advance(10.0)
    return cluster


def test_a_waiting_job_starts_with_the_gpus_that_it_was_given_and_works_faster_on_more():
    cluster = two_jobs()
    assert cluster.act([Resize(2, 4, 2, 2)])[0].refused is None
    assert cluster.observe().pending.gpus.tolist() == [4]
    cluster.advance(150.0)
    running = cluster.observe().running
    assert (running.job_id.tolist(), running.gpus.tolist(), cluster.nodes.gpus_used.tolist()) == ([2], [4], [4])
    cluster.advance(400.0)
    runs = cluster.outcomes(0.0, np.inf)
    took_s = dict(zip(runs.job_id.tolist(), runs.runtime_s.tolist(), strict=True))
    assert abs(took_s[2] - 100.0 / 1.8) < 1.0
    assert dict(zip(runs.job_id.tolist(), runs.gpus.tolist(), strict=True))[2] == 4


def test_slurm_refuses_what_it_would_refuse():
    cluster = two_jobs()
    assert "no longer pending" in (cluster.act([Resize(1, 2, 4, 4)])[0].refused or "")
    assert "not available" in (cluster.act([Resize(2, 8, 2, 2)])[0].refused or "")
    assert "asks for 2 GPUs by now" in (cluster.act([Resize(2, 4, 3, 3)])[0].refused or "")


def test_a_job_that_comes_back_larger_goes_on_where_it_was():
    jobs = workload(1, job_id=[1], gpus=[2], submit_s=[0.0], runtime_s=[1000.0])
    cluster = cluster_of_one(jobs)
    cluster.advance(400.0)
    cluster.act([AskToStop(1, "URG")])
    cluster.advance(500.0)
    assert cluster.act([Resize(1, 4, 2, 2)])[0].refused is None
    cluster.advance(5_000.0)
    runs = cluster.outcomes(0.0, np.inf)
    started_s, ended_s = float(runs.started_s[0]), float(runs.ended_s[0])
    assert 500.0 / 1.8 < ended_s - started_s < 650.0 / 1.8, "it had done 400 of 1,000 s, less what a start takes"


def exact(jobs: Workload) -> FixedForecast:
    """A model that knows the runtimes."""
    source = Labels.of(["known"] * len(jobs))
    return FixedForecast(jobs.job_id, Forecast(jobs.runtime_s, jobs.runtime_s, jobs.runtime_s, source))


def mean_jct_s(resizes: bool) -> float:
    """The mean JCT of jobs of two GPUs in bursts on one node, with the daemon's own cycle beside slurmctld."""
    count = 12
    submit_s = np.repeat(np.arange(4) * 4_000.0, 3)
    jobs = workload(
        count,
        job_id=np.arange(1, count + 1),
        gpus=np.full(count, 2),
        submit_s=submit_s,
        runtime_s=np.full(count, 1500.0),
    )
    cluster = cluster_of_one(jobs)
    powers = frozenset({"order", "requeue", "hold"} | ({"resize"} if resizes else set()))
    rules = Rules(powers=powers, scope="queue", resizing=ResizingRules(least_s=300.0) if resizes else None)
    CycleDriver(cluster, Policy(find_ordering("fifo"), rules), exact(jobs)).run()
    assert cluster.drained
    runs = cluster.outcomes(0.0, np.inf)
    order = np.argsort(runs.job_id)
    return float(np.mean(runs.ended_s[order] - submit_s))


def test_jobs_that_may_run_on_any_number_of_gpus_end_sooner_on_average():
    assert mean_jct_s(resizes=True) < 0.95 * mean_jct_s(resizes=False)
