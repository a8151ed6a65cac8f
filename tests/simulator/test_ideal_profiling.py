"""Profiling nodes by decide(), on a cluster that carries plans out as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_cycle_driver import jobs_of
from simulator.worlds import decided, simulate, worlds

from examples import examples
from slurmsched.cluster.actions import MoveNodes, MovePartition, Requeue, Start
from slurmsched.cluster.columns import Labels
from slurmsched.config import Settings
from slurmsched.config.settings import DeadlineSettings, PolicySettings, PowerSettings, ProfileSettings
from slurmsched.cycle import CycleReport
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import PROFILINGS
from slurmsched.powers import decide
from slurmsched.powers.profile import profiling_rules
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing
from slurmsched.simulator.cycle_driver import IdealDriver, composed
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import rules_of
from slurmsched.simulator.profiling_nodes import MAIN, with_profiling
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.workload import Workload

PROFILER = Setup.of("sjf", "backfill", profile_nodes=1, profile_s=100.0, profile_gpus=4, restart_s=60.0)


def new_jobs(*rows: tuple[float, float, int], ckpt: bool = True) -> Workload:
    """Jobs that hardly use their GPUs, each of a kind that nobody has run before."""
    jobs = jobs_of(*[(*row, "light") for row in rows], ckpt=[ckpt] * len(rows))
    return replace(jobs, user=Labels.of(f"user {at}" for at in range(len(rows))))


def test_a_new_job_starts_on_the_profiling_nodes_while_all_others_are_taken_and_ends_there():
    jobs = new_jobs((0, 900, 8), (10, 50, 1), (20, 50, 1))
    replay = decided(jobs, ClusterSpec.of(3, 4), PROFILER)
    assert replay.start_s.tolist() == [0, 10, 20]
    assert replay.end_s.tolist() == [900, 60, 70]
    assert replay.stops.sum() == 0


def test_new_jobs_are_measured_fewest_gpus_first_and_before_they_take_other_nodes():
    jobs = new_jobs((0, 90, 4), (1, 900, 4), (2, 50, 4), (2, 50, 2))
    assert decided(jobs, ClusterSpec.of(2, 4), PROFILER).start_s.tolist() == [0, 1, 140, 90]


def test_a_job_that_saves_its_work_makes_room_for_the_next_one_after_its_time_and_goes_on_where_it_left():
    jobs = new_jobs((0, 5000, 4), (1, 1000, 4), (20, 50, 4))
    replay = decided(jobs, ClusterSpec.of(2, 4), PROFILER)
    assert replay.stops.tolist() == [1, 0, 0]
    assert replay.start_s.tolist() == [0, 1, 100]
    assert replay.end_s.tolist() == [1001 + 4900 + 60, 1001, 150]


def test_a_job_that_saves_no_work_keeps_its_node_when_its_time_is_over():
    jobs = new_jobs((0, 5000, 4), (1, 1000, 4), (20, 50, 4), ckpt=False)
    replay = decided(jobs, ClusterSpec.of(2, 4), PROFILER)
    assert replay.stops.tolist() == [0, 0, 0]
    assert replay.start_s.tolist() == [0, 1, 1001]


def test_a_job_wider_than_is_measured_never_takes_a_profiling_node():
    jobs = new_jobs((0, 900, 4), (1, 50, 4))
    narrow = replace(PROFILER, profile_gpus=2)
    assert decided(jobs, ClusterSpec.of(2, 4), narrow).start_s.tolist() == [0, 900]
    assert decided(jobs, ClusterSpec.of(2, 4), PROFILER).start_s.tolist() == [0, 1]


def test_a_job_of_a_measured_kind_leaves_the_profiling_nodes_to_others():
    jobs = jobs_of((0, 50, 4, "light"), (1, 900, 4, "light"), (200, 40, 4, "light"))
    replay = decided(jobs, ClusterSpec.of(2, 4), PROFILER)
    assert replay.start_s.tolist() == [0, 1, 901], "the profiling node is free, and not for it"


def test_a_job_that_was_measured_first_shares_from_then_on():
    spec = replace(ClusterSpec.of(2, 1), sharing=Sharing(("light",), np.array([[0.9]])))
    jobs = new_jobs((0, 5000, 1), (10, 3000, 1), (20, 30, 1))
    jobs = replace(jobs, user=Labels.of(["alice"] * 3))
    setup = replace(PROFILER, sharing="indolent")
    replay = simulate(jobs, spec, setup)
    assert replay.stops.tolist() == [1, 0, 0]
    assert replay.start_s.tolist() == [0, 10, 100]
    assert replay.decisions.pairs == 1
    assert replay.end_s[0] < 3010 + 4960, "it did not wait for the end of the other"


@pytest.mark.parametrize("may_requeue", [True, False])
def test_the_settings_of_a_site_say_the_partition_and_what_may_be_done_there(may_requeue):
    power = PowerSettings(order=True, profile=True, partition=True, requeue=may_requeue)
    policy = policy_of(Settings(power=power, policy=PolicySettings(ordering="sjf"), profile=ProfileSettings(t_s=100.0)))
    setup = Setup.of_site(policy, 30.0, "site", executor="direct", restart_s=60.0)
    work, machine, _ = with_profiling(new_jobs((0, 5000, 4), (1, 1000, 4), (20, 50, 4)), ClusterSpec.of(2, 4), PROFILER)
    replay = simulate(work, machine, setup)
    assert replay.start_s[2] == (100 if may_requeue else 1001)
    assert replay.decisions.decided_by == "decide"


def test_the_promises_of_a_site_are_made_beside_slurmctld_alone():
    policy = policy_of(Settings(deadline=DeadlineSettings(enabled=True)))
    with pytest.raises(ConfigError, match="leave out the executor direct"):
        simulate(new_jobs((0, 50, 1)), ClusterSpec.of(1, 4), Setup.of_site(policy, 30.0, "site", executor="direct"))


def driven(jobs: Workload, spec: ClusterSpec, setup: Setup, **more: Any) -> IdealDriver:
    """A replay of *jobs* whose profiling partition may borrow nodes."""
    work, machine, profiling = with_profiling(jobs, spec, setup)
    cluster = IdealCluster(work, machine, SlurmConf(rules_of("strict", 0.0, 10)), checked=True)
    policy = composed(setup.ordering, setup.composition, None, replace(profiling, home=MAIN))
    driver = IdealDriver(cluster, policy, FixedForecast(jobs.job_id, forecast_of(jobs, setup, None)), **more)
    driver.run()
    return driver


def test_a_node_that_a_long_job_holds_is_replaced_and_comes_back_when_it_is_free():
    jobs = new_jobs((0, 1000, 4), (150, 50, 4), (160, 50, 4), ckpt=False)
    moves: list[str] = []

    def watch(report: CycleReport) -> None:
        moves.extend(action.text for action in report.plan.actions if isinstance(action, MoveNodes))

    driver = driven(jobs, ClusterSpec.of(3, 4), PROFILER, watch=watch)
    life = driver.cluster.model.stage.life
    assert life.first_s.tolist() == [0, 150, 160]
    assert moves == [
        "profile=n[1,3] main=n2",
        "profile=n1 main=n[2-3]",
        "profile=n[1,3] main=n2",
        "profile=n3 main=n[1-2]",
    ]
    assert list(driver.cluster.observe().partitions.nodes) == ["n[1-2]", "n3"]


def test_the_record_of_a_cycle_in_which_jobs_are_measured_first_is_decided_again_bit_for_bit(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/records.db")
    store.upgrade()
    jobs = new_jobs((0, 5000, 4), (1, 1000, 4), (20, 50, 4), (30, 70, 2), (2000, 40, 1))
    driven(jobs, ClusterSpec.of(2, 4), PROFILER, store=store)
    kinds = set()
    for number in store.decision_numbers():
        record = store.decision(number)
        policy = Policy.from_json(record.settings_json)
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
        kinds |= {type(action) for action in record.plan.actions}
    assert {Start, Requeue, MovePartition} <= kinds
    store.close()


def test_the_jobs_and_the_nodes_are_chosen_by_the_daemons_own_functions():
    ideal = composed(PROFILER.ordering, PROFILER.composition, None, ProfilingRules("profile")).rules.profiling
    assert PROFILINGS.find(ideal.part) is PROFILINGS.find(profiling_rules(Settings()).part)


@examples(40)
@given(world=worlds(), data=st.data(), name=st.sampled_from(["fifo", "sjf", "las"]))
def test_in_any_world_with_profiling_nodes_no_job_and_no_work_is_lost(world, data, name):
    jobs, spec = world
    nodes = len(spec.nodes)
    selection = data.draw(st.sampled_from(["strict", "backfill", "easy", "preemptive"]))
    ckpt = data.draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs)))
    jobs = replace(jobs, ckpt=np.array(ckpt), user=Labels.of(data.draw(_users(len(jobs)))))
    setup = Setup.of(name, selection, restart_s=2.0, profile_nodes=1, profile_s=data.draw(st.sampled_from([3.0, 8.0])))
    if nodes == 1 or jobs.gpus.max() > (nodes - 1) * spec.size:
        with pytest.raises(ConfigError, match="GPUs to the queue"):
            decided(jobs, spec, setup)
        return
    replay = decided(jobs, spec, setup)
    assert violations(replay) == []
    stops_without_preemption = replay.stops if selection != "preemptive" else replay.stops[:0]
    assert (stops_without_preemption <= 1).all(), "nobody is measured twice"


def _users(count: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(["alice", "bob", "carol"]), min_size=count, max_size=count)
