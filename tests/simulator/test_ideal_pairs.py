"""Jobs that share GPUs by decide(), on a cluster that carries plans out as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_cycle_driver import fleet_of, jobs_of
from simulator.worlds import decided, simulate

from examples import examples
from slurmsched.cluster.actions import Move, Preempt, Start
from slurmsched.cluster.jobs import JobTable
from slurmsched.config import Settings
from slurmsched.cycle import CycleReport
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.db.records.gpu_usage import EVERY_S as PROFILES_EVERY_S
from slurmsched.db.store import Store
from slurmsched.decide import run_set
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.decide.sharing import pairing
from slurmsched.models.sharing.speed_curve import SpeedCurve
from slurmsched.policies.contract import SELECTIONS, SHARINGS, find_ordering, sharing
from slurmsched.policies.sharing import pairs
from slurmsched.powers import decide
from slurmsched.powers.share import packing
from slurmsched.simulator.cluster_spec import ClusterSpec, Failures, Sharing, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver, IdealDriver, composed
from slurmsched.simulator.engine.job_state import COMPLETED, JobStates
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.gpu_profiles import T_PROF_S
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import outages_of, rules_of
from slurmsched.simulator.pair_rules import pair_rules, use_of
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.workload import Workload

USE = {  # GPU use by program: utilisation, of the memory too, MiB
    "light": (0.1, 0.05, 3000.0),
    "medium": (0.5, 0.3, 6000.0),
    "heavy": (0.97, 0.9, 20000.0),
}


LEASED = "preemptive lease_s=60"
CURVE = SpeedCurve(np.array([0.2, 1.0, 2.0]), np.array([0.95, 0.85, 0.3]))


def fleet(nodes: int, gpus: int, speed: float = 0.9) -> ClusterSpec:
    """Nodes on which jobs named light may share, at this speed beside each other."""
    return replace(ClusterSpec.of(nodes, gpus), sharing=Sharing(("light",), np.array([[speed]])))


def loaded(seed: int) -> Workload:
    """Forty light jobs of which two nodes of two GPUs cannot run all at once."""
    rng = np.random.default_rng(seed)
    rows = [(20.0 * at, float(rng.integers(100, 900)), int(rng.choice([1, 1, 2])), "light") for at in range(40)]
    return jobs_of(*rows)


def driver(jobs: Workload, world: ClusterSpec, setup: Setup, **more: object) -> IdealDriver:
    """The cycles of a replay of *jobs*, with the state of the cluster checked after each step."""
    preempts = SELECTIONS.find(setup.selection).preempts
    rules = rules_of("preemptive" if preempts else "strict", setup.beat_s, setup.depth)
    steps = setup.ordering.steps if preempts else ()
    cluster = IdealCluster(jobs, world, SlurmConf(rules), outages=outages_of(jobs, world), checked=True, steps=steps)
    sharing = pair_rules(setup.sharing, wide=setup.wide_hosts, curve=CURVE)
    if preempts and sharing is not None:
        sharing = replace(sharing, apart_s=setup.restart_s)
    policy = composed(setup.ordering, setup.composition, sharing)
    return IdealDriver(cluster, policy, FixedForecast(jobs.job_id, forecast_of(jobs, setup, None)), **more)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_on_a_loaded_cluster_jobs_end_sooner_in_the_mean_where_they_share(seed):
    jobs = loaded(seed)
    alone, shared = (decided(jobs, fleet(2, 2), Setup.of("sjf", sharing=name)) for name in ("none", "indolent"))
    assert alone.decisions.pairs == 0
    assert shared.decisions.pairs > 10
    assert (shared.end_s - jobs.submit_s).mean() < 0.8 * (alone.end_s - jobs.submit_s).mean()


def test_two_jobs_on_the_same_gpus_run_at_the_measured_speed_of_their_pair_until_one_ends():
    jobs = jobs_of((0, 50, 1, "light"), (100, 1000, 1, "light"), (200, 450, 1, "light"))
    replay = decided(jobs, fleet(1, 1), Setup.of("fifo", sharing="indolent"))
    assert replay.start_s.tolist() == [0, 100, 200]
    assert replay.end_s[2] == pytest.approx(200 + 450 / 0.9)
    assert replay.end_s[1] == pytest.approx(700 + 1000 - 100 - 450)


def test_a_job_joins_a_long_one_of_its_kind_soon_after_t_prof():
    jobs = jobs_of((0, 5000, 1, "light"), (100, 300, 1, "light"))
    replay = decided(jobs, fleet(1, 1), Setup.of("fifo", sharing="indolent"))
    assert T_PROF_S < replay.start_s[1] <= T_PROF_S + PROFILES_EVERY_S


def test_who_stays_keeps_the_gpus_when_the_first_leaves():
    jobs = jobs_of((0, 50, 1, "light"), (100, 400, 1, "light"), (200, 900, 1, "light"), (300, 10, 1, "other"))
    replay = decided(jobs, fleet(1, 1), Setup.of("fifo", sharing="indolent"))
    assert replay.start_s[2] == 200
    assert replay.end_s[1] < replay.end_s[2] == replay.start_s[3], "the last may not share, so it waits for both"


def test_jobs_join_a_wider_one_until_its_gpus_are_full_and_keep_them_when_it_ends():
    known = [(0, 50, 4, "light"), (50, 20, 1, "light")]
    jobs = jobs_of(*known, (100, 500, 4, "light"), *[(200.0 + at, 5000.0, 1, "light") for at in range(5)])
    replay = decided(jobs, fleet(1, 4), Setup.of("fifo", sharing="indolent"))
    assert replay.start_s[3:7].tolist() == [200, 201, 202, 203]
    assert replay.start_s[7] == replay.end_s[2] > 600, "no GPU has three jobs, and guests slow the wide one"
    equal = decided(jobs, fleet(1, 4), replace(Setup.of("fifo", sharing="indolent"), wide_hosts=False))
    assert equal.start_s[3] == equal.end_s[2] == 600


def joined(speeds: list[list[float]], jobs: Workload, starts: list[Start]) -> JobStates:
    """The state of *jobs* at the end, of which those in *starts* start at once, on a node of three GPUs."""
    world = replace(ClusterSpec.of(1, 3), sharing=Sharing(("w", "a", "b"), np.array(speeds)))
    cluster = IdealCluster(jobs, world, SlurmConf(rules_of("strict", 0.0, 10)), checked=True)
    assert cluster.advance_to_decision()
    assert [answer.refused for answer in cluster.act(starts)] == [None] * len(starts)
    cluster.decided()
    while cluster.advance_to_decision():
        cluster.decided()
    return cluster.model.stage.life


def test_a_wide_job_with_guests_is_as_slow_as_the_slowest_of_its_gpus():
    jobs = jobs_of((0, 100, 3, "w"), (0, 90, 1, "a"), (0, 10, 2, "b"), partition=[""] * 3)
    starts = [Start(1, "n1:3"), Start(2, "n1:1", 1), Start(3, "n1:2", 1)]
    ended_s = joined([[1.0, 0.8, 0.5], [0.9, 1.0, 1.0], [1.0, 1.0, 1.0]], jobs, starts).ended_s
    assert ended_s[[1, 2]] == pytest.approx([100, 10])
    assert ended_s[0] == pytest.approx(100 + (100 - 0.5 * 10 - 0.8 * 90))


def test_a_guest_keeps_its_gpus_and_is_faster_when_its_wide_host_leaves():
    jobs = jobs_of((0, 10, 3, "w"), (0, 100, 1, "a"), partition=[""] * 2)
    life = joined([[1.0, 1.0, 1.0], [0.5, 1.0, 1.0], [1.0, 1.0, 1.0]], jobs, [Start(1, "n1:3"), Start(2, "n1:1", 1)])
    assert life.ended_s == pytest.approx([10, 10 + 100 - 5])


def test_gpu_use_of_a_program_is_the_mean_over_its_measured_jobs():
    rows = [(0.0, 1.0, 1, "x")] * 3
    use = use_of(jobs_of(*rows, work=["x", "x", "y"], gpu_util=np.array([0.2, 0.4, np.nan])), ("x", "y", "z"))
    assert use.gpu_util[0] == pytest.approx(0.3)
    assert np.isnan(use.gpu_util[1:]).all()


def test_nothing_of_a_run_that_shared_is_measured():
    jobs = jobs_of((0, 50, 1, "light"), (100, 400, 1, "light"), (200, 400, 1, "light"))
    driven = driver(jobs, fleet(1, 1), Setup.of("fifo", sharing="indolent"))
    driven.run()
    ended = driven.cluster.outcomes(-np.inf, np.inf)
    assert sorted(profile.job_id for profile in driven.cluster.profiles(ended)) == [1]


def test_a_job_joins_no_other_on_a_node_of_other_partitions_or_without_cpus_for_it():
    rows = [
        (0.0, 50.0, 1, "light"),
        (100.0, 1000.0, 1, "light"),
        (100.0, 1000.0, 1, "other"),
        (200.0, 90.0, 1, "light"),
    ]
    parts = partition_of("a", "n1").joined(partition_of("b", "n2"))
    nodes = nodes_of(2, 1, partitions=["a", "b"], cpus=np.full(2, 4))
    world = replace(fleet(2, 1), nodes=nodes, partitions=parts)
    for last, cpus, start_s in (("a", 1, 200), ("a,b", 1, 200), ("a", 4, 1100), ("b", 1, 1100)):
        jobs = jobs_of(*rows, partition=["a", "a", "b", last], cpus=[1, 1, 1, cpus])
        assert decided(jobs, world, Setup.of("fifo", sharing="indolent")).start_s[3] == start_s


def test_a_job_that_shares_counts_for_the_limit_of_its_account():
    jobs = jobs_of((0, 50, 1, "light"), (100, 1000, 1, "light"), (200, 90, 1, "light"), account=["a", "a", "a"])
    for limit, start_s in ((2, 200), (1, 1100)):
        world = replace(fleet(1, 1), account_gpus={"a": limit})
        assert decided(jobs, world, Setup.of("fifo", sharing="indolent")).start_s[2] == start_s


def test_a_node_that_fails_sends_both_jobs_of_a_pair_back():
    jobs = jobs_of((0, 20, 2, "light"), *[(100.0 + at, 300.0, 2, "light") for at in range(6)])
    world = replace(fleet(2, 2), failures=Failures(900.0, 50.0, seed=4))
    replay = decided(jobs, world, Setup.of("sjf", sharing="indolent"))
    assert replay.stops.sum() > 1
    assert replay.decisions.pairs > 1
    assert (replay.end_s - replay.start_s >= jobs.runtime_s - 1e-6).all()


def saved(jobs: Workload) -> Workload:
    """The same jobs, which all save their work."""
    return replace(jobs, ckpt=np.ones(len(jobs), dtype=np.bool_))


PREEMPTING = {"selection": "preemptive", "sharing": "indolent", "restart_s": 30.0}


def test_a_guest_goes_on_with_gpus_of_its_own_as_soon_as_that_pays_for_the_restart():
    """The first job has shown their use; the third one joins the second, and leaves it when the fourth one ends."""
    rows = [(0, 50, 1, "light"), (100, 9000, 1, "light"), (100, 1000, 1, "other"), (200, 5000, 1, "light")]
    replay = decided(saved(jobs_of(*rows)), fleet(1, 2), Setup.of("srtf", **PREEMPTING), check=True)
    assert replay.start_s.tolist() == [0, 100, 100, 200]
    assert replay.end_s[2] == 1100
    assert (replay.stops.tolist(), replay.decisions.yields) == ([0, 0, 0, 1], 1)
    assert replay.end_s[3] == pytest.approx(1100 + 5000 - 810 + 30), "it ran at 0.9 of its speed for 900 s"
    assert replay.end_s[1] == pytest.approx(100 + 9000 + 90)


@pytest.mark.parametrize(
    ("ckpt", "cost_s", "left_s"),
    [(True, 1000.0, 5000.0), (False, 30.0, 5000.0), (True, 30.0, 480.0)],
    ids=["a restart costs more", "it saves no work", "it has ended before"],
)
def test_a_guest_stays_where_leaving_costs_more(ckpt, cost_s, left_s):
    rows = [(0, 50, 1, "light"), (100, 9000, 1, "light"), (100, 1000, 1, "other"), (200, left_s, 1, "light")]
    jobs = jobs_of(*rows)
    setup = Setup.of("srtf", **PREEMPTING | {"restart_s": cost_s})
    replay = decided(saved(jobs) if ckpt else jobs, fleet(1, 2), setup, check=True)
    assert (replay.start_s[3], replay.decisions.pairs, replay.stops.sum()) == (200, 1, 0)


def test_while_two_jobs_share_neither_yields_to_a_shorter_one():
    rows = [(0, 50, 1, "light"), (100, 9000, 1, "light"), (200, 5000, 1, "light"), (300, 10, 1, "other")]
    replay = decided(saved(jobs_of(*rows)), fleet(1, 1), Setup.of("srtf", **PREEMPTING), check=True)
    assert replay.start_s[3] == replay.end_s[2] > 5000
    assert replay.stops.tolist() == [0, 1, 0, 0], "once it is alone, the first yields"
    alone = decided(saved(jobs_of(*rows[:2], rows[3])), fleet(1, 1), Setup.of("srtf", **PREEMPTING), check=True)
    assert (alone.stops.tolist(), alone.start_s[2]) == ([0, 1, 0], 300)


@pytest.mark.parametrize("saves", [True, False])
def test_a_small_job_goes_to_another_node_where_a_guest_finds_no_whole_one_otherwise(saves):
    """A pair has the first of three nodes; on each other one a long job of one GPU is left beside a free GPU."""
    rows = [(0, 50, 2, "light"), (100, 9000, 2, "light"), (101, 9000, 1, "other"), (102, 500, 1, "other")]
    rows += [(103, 9000, 1, "other"), (104, 550, 1, "other"), (200, 5000, 2, "light")]
    jobs = saved(jobs_of(*rows))
    jobs = replace(jobs, ckpt=jobs.ckpt & (saves | ~np.isin(np.arange(len(jobs)), (2, 4))))
    replay = decided(jobs, fleet(3, 2), Setup.of("srtf", **PREEMPTING), check=True)
    assert replay.start_s[6] == 200
    assert replay.decisions.pairs == 1
    assert replay.stops.tolist() == ([0, 0, 1, 0, 0, 0, 1] if saves else [0] * 7)
    if saves:
        assert replay.end_s[2] == 101 + 9000 + 30
        assert replay.end_s[6] == pytest.approx(654 + 5000 - 0.9 * 454 + 30)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_on_a_loaded_cluster_jobs_that_are_preempted_end_sooner_in_the_mean_where_they_share(seed):
    jobs = saved(loaded(seed))
    for selection in ("preemptive", LEASED):
        shared, alone = (
            decided(
                jobs, fleet(2, 2), Setup.of("srtf", selection, sharing=rule, restart_s=5.0, beat_s=30.0), check=True
            )
            for rule in ("indolent", "none")
        )
        assert shared.stops.sum() > 0
        assert (shared.end_s - jobs.submit_s).mean() < 0.8 * (alone.end_s - jobs.submit_s).mean()


def test_a_replay_calls_decide_where_the_cluster_lets_jobs_share_and_no_policy_forbids_it():
    jobs = loaded(1)
    shared, same = (simulate(jobs, fleet(2, 2), Setup.of("sjf", sharing=rule)) for rule in ("indolent", ""))
    assert shared.decisions.decided_by == "decide"
    assert shared.end_s.tolist() == same.end_s.tolist(), "indolent where the policy names no rule"
    assert simulate(jobs, ClusterSpec.of(2, 2), Setup.of("sjf", sharing="indolent")).decisions.decided_by == "fast"
    nobody, plain = (
        simulate(jobs, world, Setup.of("sjf", sharing="none")) for world in (fleet(2, 2), ClusterSpec.of(2, 2))
    )
    assert nobody.end_s.tolist() == plain.end_s.tolist()


@pytest.fixture
def counted() -> Iterator[list[str]]:
    """The rule indolent under another name, with a list of the partitions of the jobs that it was called for."""
    calls: list[str] = []

    @sharing("counted")
    def counted(waiting, wait_s, running, free, limits):
        """Each job, in order, joins the running one beside which most time is gained."""
        made = pairs(waiting, wait_s, running, free, limits)
        calls.extend("pair" for _ in made)
        return made

    yield calls
    del SHARINGS._parts["counted"]


def test_one_function_pairs_jobs_on_a_modelled_slurm_and_where_plans_happen_as_they_are(counted):
    rows = [(0.0, 30.0, 4, "light"), (1.0, 2000.0, 4, "blocker"), *[(100.0, 200.0, 1, "light")] * 8]
    jobs, setup = jobs_of(*rows), Setup.of("fifo", sharing="counted")
    slurm = SimulatedCluster(jobs, fleet_of("shared", shared="shared"), SlurmConf(), checked=True)
    rules = SharingRules(memory_mib=20_000.0, wait_s=10.0, rule="counted")
    policy = Policy(find_ordering("fifo"), Rules(powers=frozenset({"order", "share"}), scope="queue", sharing=rules))
    CycleDriver(slurm, policy, FixedForecast(jobs.job_id, forecast_of(jobs, setup, None)), every_s=5.0).run()
    assert slurm.model.stage.life.joined.sum() > 0
    on_slurm, counted[:] = len(counted), []
    replay = decided(jobs, fleet(1, 4), setup)
    assert on_slurm > 0
    assert 0 < replay.decisions.pairs <= len(counted)


def test_who_joins_whom_is_one_object_on_slurm_and_where_plans_happen_as_they_are():
    daemon, ideal = (
        policy_of(Settings()),
        composed(find_ordering("sjf"), Setup.of("sjf").composition, pair_rules("indolent")),
    )
    assert SHARINGS.find(daemon.rules.sharing.rule).function is SHARINGS.find(ideal.rules.sharing.rule).function
    assert packing.paired is run_set.paired is pairing.paired


def test_the_record_of_a_cycle_in_which_jobs_join_others_is_decided_again_bit_for_bit(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/records.db")
    store.upgrade()
    jobs = jobs_of((0, 50, 1, "light"), (100, 1000, 1, "light"), (200, 450, 1, "light"), (210, 30, 1, "light"))
    driver(jobs, fleet(1, 1), Setup.of("fifo", sharing="indolent"), store=store).run()
    joined = 0
    for number in store.decision_numbers():
        record = store.decision(number)
        policy = Policy.from_json(record.settings_json)
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
        joined += sum(isinstance(action, Start) and action.beside > 0 for action in record.plan.actions)
    assert joined == 2
    store.close()


@st.composite
def sharing_worlds(draw: st.DrawFn) -> tuple[Workload, ClusterSpec]:
    """Any few jobs of three programs on a few nodes, where pairs of programs have any speeds; nodes may fail."""
    gpus, nodes = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 3))
    jobs = draw(
        st.lists(
            st.tuples(
                st.integers(0, 600),
                st.integers(20, 400),
                st.integers(1, min(nodes * gpus, 5)),
                st.sampled_from(["light", "light", "medium", "heavy", "other"]),
            ),
            min_size=4,
            max_size=25,
        )
    )
    rows = sorted(jobs, key=lambda job: job[0])
    use = np.array([USE.get(row[3], (np.nan,) * 3) for row in rows])
    workload = jobs_of(
        *rows,
        partition=[""] * len(rows),
        cpus=draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))),
        time_limit_s=[row[1] + 50.0 for row in rows],
        gpu_util=use[:, 0],
        memory_util=use[:, 1],
        gpu_memory_mib=use[:, 2],
    )
    speeds = draw(st.lists(st.sampled_from([0.0, 0.3, 0.7, 0.9, 1.0]), min_size=9, max_size=9))
    world = replace(
        ClusterSpec.of(nodes, gpus),
        nodes=nodes_of(nodes, gpus, cpus=np.full(nodes, 4 * gpus)),
        sharing=Sharing(tuple(USE), np.array(speeds).reshape(3, 3)),
        failures=draw(st.sampled_from([None, Failures(5000.0, 60.0, seed=3)])),
    )
    return workload, world


def demand_sound(jobs: JobTable) -> None:
    """No GPU has more than two jobs, and a job that joined another runs on its node and has no guest itself."""
    joined = dict.fromkeys(jobs.job_id.tolist(), 0)
    for row, other in enumerate(jobs.beside.tolist()):
        if other:
            at = jobs.row_of(other)
            assert jobs.beside[at] == 0
            assert jobs.guest_gpus[row] == 0
            assert jobs.node_list[at] == jobs.node_list[row]
            joined[other] += int(jobs.gpus[row])
    assert list(joined.values()) == jobs.guest_gpus.tolist()
    assert (jobs.guest_gpus <= jobs.gpus).all()


@examples(40)
@given(
    world=sharing_worlds(),
    name=st.sampled_from(["fifo", "sjf", "qssf", "srtf", "las"]),
    selection=st.sampled_from(["strict", "backfill", "easy", "conservative", "preemptive", LEASED]),
)
def test_in_any_world_two_jobs_at_most_share_every_job_ends_and_each_decision_can_be_made_again(world, name, selection):
    jobs, spec = world
    setup = Setup.of(name, selection, sharing="indolent", beat_s=60.0)
    jobs = replace(jobs, ckpt=jobs.job_id % 3 > 0)
    preempts = SELECTIONS.find(setup.selection).preempts

    def watch(report: CycleReport) -> None:
        demand_sound(report.view.running)
        assert not report.refused, "what is decided can be carried out"
        assert report.plan.refusals == ()
        policy = Policy.from_json(driven.policy.to_json())
        again = decide(report.view, policy.ordering, policy.rules)
        assert again.actions == report.plan.actions
        assert again.jobs.equals(report.plan.jobs)
        assert preempts or not any(isinstance(action, Preempt | Move) for action in again.actions)

    driven = driver(jobs, spec, setup, watch=watch)
    driven.run()
    life = driven.cluster.model.stage.life
    assert (life.state == COMPLETED).all()
    assert (life.ended_s - life.first_s >= jobs.runtime_s - 1e-6).all()
    assert driven.cluster.model.stage.resources.free.gpus.sum() == spec.total, "all GPUs are free again"
