"""Jobs on types of GPUs beside a modelled slurmctld: excluded nodes bind it, and the daemon's own decision gains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.actions import Steer, Unsteer
from slurmsched.errors import ConfigError
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.speeds.speed_files import SpeedFiles
from slurmsched.simulator.speeds.type_speeds import read_throughputs
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.workload import workload

DATA = Path(__file__).parents[1] / "data"
POOLS = {"v100": 12, "p100": 12, "k80": 12}


def cluster_of_two() -> SimulatedCluster:
    """A node of two A100 and one of two V100, both full for 100 s, and two jobs of two GPUs that wait."""
    jobs = workload(4, job_id=[1, 2, 3, 4], gpus=[2] * 4, submit_s=[0.0] * 4, runtime_s=[100.0] * 4)
    cluster = SimulatedCluster(jobs, ClusterSpec.of_types({"a100": 2, "v100": 2}), checked=True)
    cluster.advance(10.0)
    return cluster


def nodes_of(cluster: SimulatedCluster) -> dict[int, str]:
    running = cluster.observe().running
    return dict(zip(running.job_id.tolist(), running.node_list, strict=True))


def test_a_job_never_starts_on_excluded_nodes_and_does_once_they_are_not_excluded_any_more():
    cluster = cluster_of_two()
    answers = cluster.act([Steer(3, "v100", "a100"), Steer(4, "v100", "a100")])
    assert [answer.refused for answer in answers] == [None, None]
    assert list(cluster.observe().pending.excluded_nodes) == ["a100", "a100"]
    cluster.advance(150.0)
    assert nodes_of(cluster) == {3: "v100"}
    assert cluster.act([Unsteer(4, "a100")])[0].refused is None
    cluster.advance(190.0)
    assert nodes_of(cluster) == {3: "v100", 4: "a100"}


def test_a_job_that_runs_is_not_steered_any_more():
    cluster = cluster_of_two()
    assert "no longer pending" in (cluster.act([Steer(1, "v100", "a100")])[0].refused or "")


@pytest.fixture(scope="module")
def gavel():
    """The sample of Gavel's trace, its jobs at their fastest, and their speeds by type."""
    fleet = ClusterSpec.of_types(POOLS)
    files = SpeedFiles(throughputs=str(DATA / "gavel_throughputs.json"))
    case = Case(Source.of(str(DATA / "gavel_single_100.csv"), fleet.total), speeds=files)
    jobs = case.trace().workload
    types = files.performance(jobs, fleet)
    return replace(jobs, runtime_s=types.runtime_s), fleet, types


def mean_jct_s(gavel, **parts) -> float:
    jobs, fleet, types = gavel
    replay = simulate(jobs, fleet, Setup.of("fifo", executor="slurm", **parts), types=types, check=True)
    assert np.isfinite(replay.end_s).all()
    fastest_s = replay.workload.runtime_s
    assert (replay.end_s - replay.start_s >= fastest_s - 1e-6).all(), "no job is faster than on its fastest type"
    return float(np.mean(replay.end_s - jobs.submit_s))


def test_steering_at_the_start_gains_half_of_what_shares_of_time_on_known_types_gain_over_blind_ones(gavel):
    blind_s, aware_s = 22_025.0, 15_852.0
    assert mean_jct_s(gavel, steer=True) < (blind_s + aware_s) / 2 < mean_jct_s(gavel)


def test_a_job_that_cannot_run_on_a_type_never_starts_there(tmp_path):
    cannot, can = "('ResNet-50 (batch size 128)', 2)", "('ResNet-18 (batch size 16)', 2)"
    speeds = {"v100": {cannot: {"null": 10.0}, can: {"null": 10.0}}, "k80": {cannot: {"null": 0.0}, can: {"null": 1.0}}}
    (tmp_path / "throughputs.json").write_text(json.dumps(speeds))
    lines = [
        f"{row},ResNet-{50 if row % 2 else 18} (batch size {128 if row % 2 else 16}),2,100,0,1.0" for row in range(6)
    ]
    (tmp_path / "jobs.csv").write_text("\n".join(["job_id,model,gpus,steps,submit_s,weight", *lines]))
    fleet = ClusterSpec.of_types({"v100": 2, "k80": 2})
    files = SpeedFiles(throughputs=str(tmp_path / "throughputs.json"))
    jobs = Case(Source.of(str(tmp_path / "jobs.csv"), fleet.total), speeds=files).trace().workload
    types = files.performance(jobs, fleet)
    jobs = replace(jobs, runtime_s=types.runtime_s)
    for steer in (False, True):
        replay = simulate(jobs, fleet, Setup.of("fifo", executor="slurm", steer=steer), types=types, check=True)
        ran_s = replay.end_s - replay.start_s
        assert ran_s[1::2] == pytest.approx([10.0] * 3)
        assert max(ran_s[::2]) == pytest.approx(10.0 if steer else 100.0), (
            "the others start there unless that costs them"
        )


def test_jobs_are_steered_beside_slurmctld_alone():
    with pytest.raises(ConfigError, match="steer goes with executor slurm"):
        Setup.of("fifo", steer=True)


def test_with_leases_gavel_lets_jobs_take_turns_on_the_type_where_they_are_faster_and_without_them_none_yields():
    """A job for K80 keeps that one; the other two share the only V100, four hours of work for each."""
    files = SpeedFiles(throughputs=str(DATA / "gavel_throughputs.json"))
    model, fleet, work_s = "ResNet-50 (batch size 64)", ClusterSpec.of_types({"v100": 1, "k80": 1}), 4 * 3600.0
    jobs = workload(
        3,
        job_id=[1, 2, 3],
        gpus=[1] * 3,
        submit_s=[0.0, 0.0, 60.0],
        runtime_s=[work_s] * 3,
        iterations=[work_s * read_throughputs(files.throughputs)["v100"][model, 1][None][0]] * 3,
        work=[model] * 3,
        gpu_type=["k80", "", ""],
        ckpt=[True] * 3,
    )
    types = files.performance(jobs, fleet)
    terms = {"executor": "slurm", "steer": True, "restart_s": 60.0, "beat_s": 240.0}
    turns = simulate(jobs, fleet, Setup.of("gavel", preemption="lease 1h", **terms), types=types, check=True)
    assert turns.stops[0] == 0
    assert min(turns.stops[1:]) >= 3, "they yield to each other"
    assert turns.end_s[1:].max() - turns.end_s[1:].min() < work_s / 2, "each has half of it until one of them ends"
    assert turns.end_s[1:].max() >= 2 * work_s, "on the V100 alone"
    alone = simulate(jobs, fleet, Setup.of("gavel", **terms), types=types, check=True)
    assert alone.stops.sum() == 0
    assert alone.start_s[2] >= alone.end_s[1]
