"""The daemon's cycles beside a modelled Slurm, with sharing and profiling: what they know, and what they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.actions import Requeue
from slurmsched.cluster.jobs import JobTable
from slurmsched.cycle import CycleReport
from slurmsched.db.records.gpu_usage import EVERY_S as PROFILES_EVERY_S
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules, Rules, SharingRules
from slurmsched.models.sharing.sharing_model import TINY
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.engine.job_state import COMPLETED
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.gpu_profiles import T_PROF_S
from slurmsched.simulator.run import Setup, forecast_of, simulate
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import NO_EARLIER_JOBS, EarlierJobs, Workload, as_submitted, workload

LAB = SlurmConf(SlurmctldConfig(batch_sched_delay_s=0.0, bf_interval_s=10.0))
LIGHT = {"gpu_util": 0.1, "memory_util": 0.05, "gpu_memory_mib": 3000.0}
PAIRS = Sharing(("light",), np.array([[0.9]]))


def jobs_of(*rows: tuple[float, float, int, str], **columns: object) -> Workload:
    """Jobs as (submit, runtime, GPUs, name); those named light hardly use their GPUs, of others nothing is known."""
    light = np.array([row[3] == "light" for row in rows])
    known = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_s": [row[0] for row in rows],
        "runtime_s": [row[1] for row in rows],
        "gpus": [row[2] for row in rows],
        "name": [row[3] for row in rows],
        "user": ["alice"] * len(rows),
        "time_limit_s": np.full(len(rows), 3600.0),
        "partition": ["gpu"] * len(rows),
        **{name: np.where(light, value, np.nan) for name, value in LIGHT.items()},
    }
    return workload(len(rows), **(known | columns))


def fleet_of(second: str, tier: int = 1, shared: str = "") -> ClusterSpec:
    """n1 in the partition gpu, n2 in the partition *second*, four GPUs each."""
    parts = partition_of("gpu", "n1").joined(partition_of(second, "n2", tier=np.array([tier])))
    nodes = nodes_of(2, 4, partitions=["gpu", second], cpus=np.full(2, 32))
    return ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, sharing=PAIRS, shared=shared)


def driven(cluster: SimulatedCluster, rules: Rules, every_s: float = 5.0) -> list[CycleReport]:
    """The reports of all cycles until the end, on which the model of Slurm is sound."""
    reports: list[CycleReport] = []

    def watch(report: CycleReport) -> None:
        cluster.validate()
        reports.append(report)

    forecast = FixedForecast(cluster.jobs.job_id, forecast_of(cluster.jobs, Setup.of("sjf"), None))
    CycleDriver(cluster, Policy(find_ordering("fifo"), rules), forecast, every_s=every_s, watch=watch).run()
    return reports


def sharing_rules(**rules: object) -> Rules:
    sharing = SharingRules(**({"memory_mib": 20_000.0, "wait_s": 10.0} | rules))
    return Rules(powers=frozenset({"order", "share"}), scope="queue", sharing=sharing)


def column_of(jobs: JobTable, name: str, job: int) -> object:
    row = jobs.row_of(job)
    assert row is not None
    return getattr(jobs, name)[row]


def test_a_job_is_known_by_its_gpu_use_once_a_run_of_its_kind_has_ended():
    jobs = jobs_of((0, 100, 4, "light"), (0, 400, 4, "blocker"), (1, 60, 1, "light"), (1, 60, 1, "other"))
    cluster = SimulatedCluster(jobs, fleet_of("other"), LAB)
    cluster.model.wishes.barred[2:] = True  # the last two wait all the time
    known: list[tuple[float, bool]] = []
    for report in driven(cluster, sharing_rules()):
        if report.view.pending.row_of(3) is not None:
            known.append((report.now_s, bool(column_of(report.view.pending, "measured", 3))))
            assert not column_of(report.view.pending, "measured", 4), "nothing is known of what the other does"
    assert {now for now, measured in known if measured}
    first_s = min(now_s for now_s, measured in known if measured)
    assert 100 < first_s <= 100 + 60 + 30, "as soon as the daemon next reads what was measured"
    pending = report.view.pending
    found = {name: column_of(pending, name, 3) for name in (*LIGHT, "unstable", "share_score")}
    assert found == {**LIGHT, "unstable": False, "share_score": TINY}


def test_a_kind_is_known_by_a_job_that_still_runs():
    jobs = jobs_of((0, 3000, 4, "light"), (1, 60, 4, "light"))
    cluster = SimulatedCluster(jobs, fleet_of("other"), LAB)
    reports = driven(cluster, sharing_rules())
    known_s = min(report.now_s for report in reports if report.view.pending.measured.any())
    assert T_PROF_S < known_s <= T_PROF_S + PROFILES_EVERY_S + 5


def test_nodes_deliver_a_first_profile_once_after_the_warm_up_and_of_whom_it_may_be():
    jobs = jobs_of((0, 3000, 1, "light"), (0, 3000, 1, "light"), (0, 3000, 1, "light"), (0, 3000, 1, "unknown"))
    table = replace(
        as_submitted(jobs),
        coldstart_s=np.array([0.0, 100.0, 0.0, 0.0]),
        noprofile=np.array([False, False, True, False]),
    )
    cluster = SimulatedCluster(
        jobs, fleet_of("other"), SlurmConf(SlurmctldConfig(batch_sched_delay_s=0.0)), submitted=table
    )
    delivered, before_s = [], -np.inf
    for now_s in (199.0, 205.0, 206.0, 299.0, 310.0, 320.0):
        cluster.advance(now_s)
        delivered.append([profile.job_id for profile in cluster.first_profiles(before_s)])
        before_s = now_s
    assert delivered == [[], [1], [], [], [2], []]


def test_nodes_deliver_as_early_in_simulations_as_by_the_default_of_their_settings():
    conf = (Path(__file__).parents[2] / "contrib/node.conf").read_text()
    assert f"#EARLY_S={T_PROF_S:g}\n" in conf


@pytest.mark.parametrize("comment", ["slurmsched:noprofile", "slurmsched:off"])
def test_a_job_whose_owner_declined_is_never_measured(comment):
    jobs = jobs_of((0, 50, 4, "light"), (1, 300, 4, "blocker"), (2, 100, 4, "light"))
    first = as_submitted(jobs)
    declined = replace(first, **{comment.partition(":")[2]: np.array([True, False, False])})
    cluster = SimulatedCluster(jobs, fleet_of("other"), LAB, submitted=declined)
    reports = driven(cluster, sharing_rules())
    assert not any(report.view.pending.measured.any() for report in reports)


def test_measured_jobs_that_wait_are_paired_on_the_shared_node_by_the_daemons_own_rules():
    rows = [(0.0, 30.0, 4, "light"), (1.0, 2000.0, 4, "blocker"), *[(100.0, 200.0, 1, "light")] * 8]
    jobs = jobs_of(*rows)
    cluster = SimulatedCluster(jobs, fleet_of("shared", shared="shared"), LAB)
    reports = driven(cluster, sharing_rules())
    life = cluster.model.stage.life
    assert (life.state == COMPLETED).all()
    assert life.joined.sum() == 4, "four pairs"
    assert sum(report.actions.get("Share", 0) for report in reports) == 8
    assert not sum(report.refused for report in reports)
    ran_s = (life.ended_s - life.started_s)[2:]
    assert ran_s.max() == pytest.approx(200 / 0.9, rel=0.02)
    shared = [report.view.running for report in reports if report.view.running.shares.any()]
    assert shared, "the daemon knows which jobs share"
    assert set(shared[0].own_whole_gpus.names) >= {"gpu gpu:1"}


@pytest.mark.parametrize(("gpus", "has_history", "shared"), [(4, True, 4), (1, True, 0), (1, False, 1)])
def test_in_a_replay_of_a_site_jobs_share_while_the_daemon_would_let_them(gpus, has_history, shared):
    """The jobs wait for CPUs; with three GPUs free and no more jobs than usual expected, none of them share."""
    rows = [(0.0, 30.0, 4, "light"), (1.0, 400.0, gpus, "blocker"), *[(100.0, 200.0, 1, "light")] * 4]
    jobs, fleet = jobs_of(*rows, cpus=[1, 32, *[1] * 4], nodes=[1] * 6), fleet_of("shared", shared="shared")
    setup = Setup.of_site(Policy(find_ordering("fifo"), sharing_rules()), 5.0, "site")
    two_days = EarlierJobs(np.repeat(np.arange(-288, 0) * 600.0, 6), np.ones(6 * 288, dtype=np.int64))
    replay = simulate(jobs, fleet, setup, check=True, earlier=two_days if has_history else NO_EARLIER_JOBS)
    assert replay.decisions.pairs == shared


def test_a_replay_of_a_site_has_its_schedulers_parameters():
    """A short job that fits beside the long one's reservation waits for the next pass of backfill."""
    jobs = jobs_of((0.0, 400.0, 3, "first"), (1.0, 400.0, 4, "wide"), (2.0, 10.0, 1, "short"))
    jobs = replace(jobs, time_limit_s=np.array([600.0, 600.0, 60.0]))
    setup = Setup.of_site(Policy(find_ordering("fifo"), Rules()), 5.0, "site")
    starts_s = {}
    for interval_s in (30, 200):
        config = {"SchedulerParameters": f"bf_interval={interval_s},batch_sched_delay=0"}
        replay = simulate(jobs, fleet_of("other"), replace(setup, slurm_config=config))
        starts_s[interval_s] = float(replay.start_s[2])
    assert starts_s[30] < 40 < 190 < starts_s[200] < 240


def test_a_replay_of_a_site_writes_no_more_in_a_cycle_than_its_settings_allow():
    """Four jobs wait behind another one; one write in all brings the shortest to the front, and no other."""
    rows = [(0.0, 12.0, 4, "blocker"), *[(1.0, runtime_s, 4, "job") for runtime_s in (400.0, 300.0, 200.0, 100.0)]]
    setup = Setup.of_site(Policy(find_ordering("sjf"), Rules(powers=frozenset({"order"}), scope="queue")), 5.0, "site")
    orders = []
    for writes in ({}, {"writes_per_s": 1e-6, "writes_burst": 1}):
        replay = simulate(jobs_of(*rows), fleet_of("other"), replace(setup, **writes))
        orders.append(np.argsort(replay.start_s).tolist())
    assert orders == [[0, 4, 3, 2, 1], [0, 4, 1, 2, 3]]


def test_a_job_in_the_profiling_partition_is_measured_requeued_and_goes_on_in_its_own_partition():
    rows = [(0.0, 500.0, 4, "blocker"), (1.0, 300.0, 4, "light"), (2.0, 300.0, 4, "light2")]
    jobs = jobs_of(*rows, partition=["gpu", "profile,gpu", "profile,gpu"])
    table = replace(as_submitted(jobs), ckpt=np.ones(3, dtype=np.bool_))
    cluster = SimulatedCluster(jobs, fleet_of("profile", tier=2), LAB, submitted=table)
    powers = frozenset({"order", "requeue", "partition", "profile"})
    rules = Rules(powers=powers, scope="queue", profiling=ProfilingRules("profile", t_s=60.0, wait_s=2000.0))
    reports = driven(cluster, rules)
    life = cluster.model.stage.life
    ran_in = {
        (int(job), int(restart)): partition
        for report in reports
        for job, restart, partition in zip(
            report.view.running.job_id, report.view.running.restarts, report.view.running.partition, strict=True
        )
        if partition != "profile,gpu"
    }
    assert ran_in == {(1, 0): "gpu", (2, 0): "profile", (3, 0): "profile", (2, 1): "gpu"}
    assert life.restarts.tolist() == [0, 1, 0]
    assert life.ended_s[1] - life.started_s[1] == pytest.approx(300 - 60, abs=15), "its work of the first run is kept"
    seen = [column_of(report.view.pending, "measured", 2) for report in reports if 2 in report.view.pending.job_id]
    assert seen[-1], "measured by its time in the profiling partition"


def test_a_deadline_stays_where_it_is_when_its_job_is_requeued():
    jobs = jobs_of((0.0, 400.0, 4, "other"), deadline_s=[5000.0], ckpt=[True])
    cluster = SimulatedCluster(jobs, fleet_of("shared"), LAB)
    forecast = FixedForecast(jobs.job_id, forecast_of(jobs, Setup.of("sjf"), None))
    driver = CycleDriver(cluster, Policy(find_ordering("fifo"), Rules()), forecast)
    cluster.advance(60.0)
    driver.cycle(60.0)
    cluster.act([Requeue(1)])
    cluster.advance(90.0)
    pending = driver.cycle(90.0).view.pending
    assert pending.restarts.tolist() == [1]
    assert pending.first_submit_s.tolist() == [0.0]
    assert pending.deadline_s.tolist() == [5000.0]


def test_a_bound_on_the_load_beside_slurm_lets_jobs_in_as_they_came():
    count = 12
    jobs = workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=np.arange(count) * 40.0,
        runtime_s=np.linspace(2400.0, 300.0, count),
        gpus=np.full(count, 4),
        time_limit_s=np.full(count, 3600.0),
    )
    starts_s = {}
    for load in (np.inf, 1.0):
        setup = Setup.of("sjf", "conservative", executor="slurm", admission=load)
        starts_s[load] = simulate(jobs, ClusterSpec.of(2, 4), setup, check=True).start_s
    assert (np.diff(starts_s[1.0]) >= 0).all(), "first come first served"
    assert not (np.diff(starts_s[np.inf]) >= 0).all(), "without a bound the shortest job runs first"
    assert starts_s[1.0].max() < 8000.0, "GPUs are idle for a cycle at a time: the work takes 8,100 s on two nodes"


@pytest.mark.parametrize(("executor", "selection"), [("slurm", "conservative"), ("direct", "backfill")])
def test_leases_let_short_jobs_pass_a_long_one_that_keeps_its_work(executor, selection):
    count = 6
    jobs = workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=np.append(0.0, 600.0 + 60.0 * np.arange(count - 1)),
        runtime_s=np.append(36_000.0, np.full(count - 1, 900.0)),
        gpus=np.full(count, 4),
        time_limit_s=np.full(count, 86_400.0),
        ckpt=np.ones(count, dtype=bool),
    )
    replays = {}
    for part in ("least-loss", "lease 10m"):
        setup = Setup.of("las", selection, executor=executor, preemption=part, restart_s=60.0)
        replays[part] = simulate(jobs, ClusterSpec.of(1, 4), setup, check=True)
    whole, leased = replays["least-loss"], replays["lease 10m"]
    assert whole.stops.tolist() == [0] * count
    assert whole.end_s[1:].min() > 36_000.0, "without leases all wait for the long job"
    assert 0 < leased.stops[0] <= 5, "at most asks_a_day stops of one job"
    assert leased.end_s[1:].mean() < whole.end_s[1:].mean() / 2
    work_s = jobs.runtime_s.sum() + 60.0 * leased.stops.sum()
    assert work_s <= leased.end_s.max() < 1.1 * work_s, "what was done is kept, but for the restarts"
