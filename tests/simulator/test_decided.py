"""The daemon's own decisions on a cluster that carries them out as they are: held equal to the compiled loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_direct import fleet_of, jobs_of, some_jobs
from simulator.worlds import decided, simulate

from examples import examples
from slurmsched.cluster.actions import Start
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.state import View
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.policies.contract import ORDERINGS, PLACEMENTS, SELECTIONS, Ordering, find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec, Failures, nodes_of
from slurmsched.simulator.cycle_driver import IdealDriver, composed
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import rules_of
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import EXACT, Setup
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf


def demand_equal(decided_run: Replay, core: Replay) -> None:
    assert decided_run.start_s.tolist() == core.start_s.tolist()
    assert decided_run.end_s == pytest.approx(core.end_s)
    assert decided_run.stops.tolist() == core.stops.tolist()
    assert decided_run.spread.tolist() == core.spread.tolist()


@pytest.mark.parametrize("selection", sorted(EXACT))
@examples(15)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(ORDERINGS)),
    placement=st.sampled_from(sorted(set(PLACEMENTS) - {"pool"})),
    admission=st.sampled_from([np.inf, 1.0, 1.5]),
)
def test_decisions_and_the_core_give_the_same_replay(selection, data, name, placement, admission):
    gpus, nodes = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    jobs = data.draw(some_jobs(nodes * gpus))
    jobs = replace(jobs, sensitive=np.array(data.draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs)))))
    setup = Setup.of(name, selection, placement=placement, restart_s=2.0, admission=admission)
    equal = ClusterSpec.of(nodes, gpus)
    fleet = replace(equal, nodes=nodes_of(nodes, gpus, cpus=np.full(nodes, 500)))
    for cluster in (fleet, equal):
        demand_equal(decided(jobs, cluster, setup), simulate(jobs, cluster, setup))


@examples(20)
@given(
    data=st.data(),
    name=st.sampled_from(["fifo", "sjf", "srtf", "las"]),
    selection=st.sampled_from(sorted(EXACT)),
)
def test_so_they_do_in_partitions_that_share_nodes(data, name, selection):
    jobs = data.draw(some_jobs(4, ("a", "b", "a,b")))
    fleet, setup = fleet_of(["a", "a,b", "b"]), Setup.of(name, selection, restart_s=1.0)
    replay = decided(jobs, fleet, setup)
    demand_equal(replay, simulate(jobs, fleet, setup))
    assert violations(replay) == []


def test_tasks_of_an_array_with_one_id_all_run():
    jobs = jobs_of(*[(float(at), 60.0, 1) for at in range(6)])
    same = replace(jobs, job_id=np.full(6, 7))
    setup, fleet = Setup.of("sjf", "easy"), ClusterSpec.of(1, 2)
    assert decided(same, fleet, setup).end_s.tolist() == decided(jobs, fleet, setup).end_s.tolist()


def test_jobs_that_are_not_admitted_do_not_count_in_the_order():
    jobs = jobs_of((0, 6, 3), (0, 11, 2), (5, 5, 3), (11, 5, 2), (16, 7, 1), (17, 1, 1))
    setup = Setup.of("themis", "backfill", placement="first-free", admission=1.5)
    fleet = replace(ClusterSpec.of(2, 2), nodes=nodes_of(2, 2, cpus=np.array([500, 500])))
    demand_equal(decided(jobs, fleet, setup), simulate(jobs, fleet, setup))


@pytest.mark.parametrize("selection", ["backfill", "preemptive"])
@pytest.mark.parametrize("run", [simulate, decided])
def test_an_ordering_sees_each_job_once_running_or_pending(run, selection):
    numbers = []

    def watch(view: View) -> np.ndarray:
        numbers.extend([*view.pending.job_id.tolist(), *view.running.job_id.tolist()] for _ in view.pending.job_id[:1])
        return view.pending.first_submit_s

    jobs = jobs_of((0, 10, 4), (1, 10, 4), (2, 10, 4))
    run(jobs, ClusterSpec.of(1, 4), Setup(Ordering("watching", watch, ""), selection))
    assert [1, 2, 3] in map(sorted, numbers)
    assert all(len(set(each)) == len(each) for each in numbers)


@pytest.mark.parametrize("run", [simulate, decided])
def test_running_jobs_count_in_their_class_of_weighted_fair_queueing(run):
    setup = Setup(find_ordering("wfq thresholds=100,inf weights=1,1"), "backfill")
    # At second 50 the second and the last wait for 3 GPUs. The third, of the class of the second, came later and runs.
    jobs = jobs_of((0, 50, 3), (1, 1000, 2), (2, 1000, 1), (3, 20, 2))
    assert run(jobs, ClusterSpec.of(1, 4), setup).start_s.tolist() == [0, 70, 2, 50]


def test_a_job_passes_a_step_of_service_at_the_same_time():
    jobs, setup = jobs_of((0, 9000, 1), (100, 5000, 1), (4000, 4000, 1)), Setup.of("tiresias-promoting")
    replay = simulate(jobs, ClusterSpec.of(1, 1), setup)
    assert replay.stops.sum() > 0
    demand_equal(decided(jobs, ClusterSpec.of(1, 1), setup), replay)


def test_nodes_that_fail_send_their_jobs_back():
    fleet = replace(ClusterSpec.of(2, 4), failures=Failures(400.0, 50.0, seed=1))
    jobs, setup = jobs_of(*[(0.0, 300.0, 4)] * 6), Setup.of("sjf")
    replay = decided(jobs, fleet, setup)
    assert replay.stops.sum() > 0
    demand_equal(replay, simulate(jobs, fleet, setup))


@pytest.mark.parametrize("selection", sorted(EXACT))
@examples(20)
@given(data=st.data(), name=st.sampled_from(["fifo", "sjf", "srtf", "las"]))
def test_so_they_do_where_accounts_have_limits(selection, data, name):
    jobs = data.draw(some_jobs(3))
    account = data.draw(st.lists(st.sampled_from("ab"), min_size=len(jobs), max_size=len(jobs)))
    jobs, limits = replace(jobs, account=Labels.of(account)), {"a": data.draw(st.integers(3, 5))}
    fleet = replace(ClusterSpec.of(2, 3), nodes=nodes_of(2, 3, cpus=np.array([500, 500])), account_gpus=limits)
    setup = Setup.of(name, selection, restart_s=1.0)
    demand_equal(decided(jobs, fleet, setup), simulate(jobs, fleet, setup))


def test_a_job_at_the_limit_of_its_account_lets_others_pass():
    jobs = replace(jobs_of((0, 10, 2), (1, 10, 2), (2, 10, 2)), account=Labels.of("aab"))
    fleet = replace(ClusterSpec.of(1, 4), account_gpus={"a": 2})
    assert decided(jobs, fleet, Setup.of("fifo", "strict")).start_s.tolist() == [0.0, 10.0, 2.0]


@pytest.mark.parametrize("selection", ["preemptive", "easy", "3sigma", "yarn-cs share=0.25"])
def test_the_record_of_a_simulated_cycle_is_decided_again_bit_for_bit(tmp_path, selection):
    deadline_s = [np.inf, 20.0, 90.0, np.inf]
    jobs = jobs_of((0, 50, 4), (1, 9, 2), (2, 30, 4), (3, 5, 1), deadline_s=deadline_s)
    fleet, loops = ClusterSpec.of(1, 4), "preemptive" if SELECTIONS.find(selection).preempts else "strict"
    setup, store = Setup.of("srtf", selection, admission=2.0), Store(f"sqlite:///{tmp_path}/records.db")
    store.upgrade()
    cluster = IdealCluster(jobs, fleet, SlurmConf(rules_of(loops, 0.0, 10)))
    model = FixedForecast(jobs.job_id, forecast_of(jobs, setup, None))
    IdealDriver(cluster, composed(setup.ordering, setup.composition, admission=setup.admits), model, store=store).run()
    numbers = store.decision_numbers()
    assert len(numbers) >= len(jobs)
    started = 0
    for number in numbers:
        record = store.decision(number)
        policy = Policy.from_json(record.settings_json)
        assert policy.rules.executor.starts_by == setup.composition
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
        started += sum(isinstance(action, Start) for action in record.plan.actions)
    assert started >= len(jobs)
    store.close()
