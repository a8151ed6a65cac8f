"""A simulation that goes on from one look at a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import modelled_slurm

from examples import examples
from slurmsched.cluster.actions import Rank, Requeue, Suspend
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.reservations import NO_RESERVATIONS
from slurmsched.cluster.state import View
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.foresee.snapshot import barred, held, resumed, unplaced
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.selection.resources import validate
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig as Loops
from slurmsched.simulator.workload.workload import Workload, workload

CONFIG = {"PriorityType": "priority/multifactor"}

AT_ONCE = SlurmConf(
    Loops(poll_s=0.0, batch_sched_delay_s=0.0, bf_interval_s=0.0, bf_resolution_s=1.0),
    Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0),
)
"""Slurm's loops at every event, on whole seconds, and priorities that do not drift: nothing unseen decides."""

FLEET = ClusterSpec(
    nodes_of(3, 4, partitions=["gpu"] * 3, cpus=np.full(3, 64), memory_mib=np.full(3, 1000.0)),
    partition_of("gpu", "n[1-3]"),
    ClusterSpec.of(1, 1).qos,
)


def jobs_of(*rows: tuple[float, int, int], **columns: object) -> Workload:
    """Jobs as (runtime, nodes, GPUs on each), all submitted at 100 s; limits are twice the runtime."""
    known = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_s": np.full(len(rows), 100.0),
        "runtime_s": [row[0] for row in rows],
        "time_limit_s": [2.0 * row[0] for row in rows],
        "nodes": [row[1] for row in rows],
        "gpus": [row[1] * row[2] for row in rows],
        "partition": ["gpu"] * len(rows),
    }
    return workload(len(rows), **(known | columns))


def told(jobs: JobTable, truth: dict[int, float]) -> Forecast:
    runtime_s = np.array([truth[job_id] for job_id in jobs.job_id.tolist()], dtype=float)
    return Forecast(runtime_s, runtime_s, runtime_s, Labels.of(["told"] * len(jobs)))


def seen(cluster: SimulatedCluster) -> View:
    """A look at *cluster*, with the true runtimes as forecasts."""
    state = cluster.observe()
    truth = dict(zip(cluster.jobs.job_id.tolist(), cluster.jobs.runtime_s.tolist(), strict=True))
    forecasts = told(state.pending, truth), told(state.running, truth)
    return View(cluster.now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)


def look(jobs: Workload, after_s: float = 0.0) -> View:
    cluster = modelled_slurm(jobs, FLEET, AT_ONCE)
    cluster.advance(100.0 + after_s)
    return seen(cluster)


def ends(cluster: SimulatedCluster) -> dict[int, float]:
    """When each job ended, by id."""
    return dict(zip(cluster.jobs.job_id.tolist(), cluster.model.stage.life.ended_s.tolist(), strict=True))


def on_to_the_end(view: View) -> dict[int, float]:
    cluster = resumed(view, CONFIG, AT_ONCE)
    stage = cluster.model.stage
    validate(stage.resources, stage.held, stage.requests)
    cluster.advance(np.inf)
    validate(stage.resources, stage.held, stage.requests)
    return ends(cluster)


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(1, 3), st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=25
    ),
    st.integers(0, 300),
)
def test_from_any_moment_a_simulation_ends_each_job_when_the_first_one_does(rows, after_s):
    first = modelled_slurm(jobs_of(*(row[:3] for row in rows)), FLEET, AT_ONCE)
    first.advance(100.0)
    first.act([Rank(number, 10 * row[3]) for number, row in enumerate(rows, 1)])
    first.advance(100.0 + after_s)
    again = on_to_the_end(seen(first))
    first.advance(np.inf)
    expected = {job_id: end_s for job_id, end_s in ends(first).items() if end_s > 100.0 + after_s}
    assert again == expected


def with_running(view: View, **columns: list[str] | np.ndarray) -> View:
    changed = {name: Labels.of(column) if isinstance(column, list) else column for name, column in columns.items()}
    return replace(view, running=replace(view.running, **changed))


def with_pending(view: View, **columns: list[str] | np.ndarray) -> View:
    changed = {name: Labels.of(column) if isinstance(column, list) else column for name, column in columns.items()}
    return replace(view, pending=replace(view.pending, **changed))


FULL = jobs_of((50, 3, 4), (10, 1, 4))


def test_a_job_on_nodes_that_sinfo_does_not_show_holds_none_of_those_shown():
    view = with_running(look(FULL), node_list=["hidden[1-3]"])
    assert on_to_the_end(view) == {1: 150.0, 2: 110.0}


def test_a_job_partly_on_nodes_that_are_not_shown_holds_the_part_that_is():
    view = with_running(look(FULL), node_list=["n[1-2],hidden1"])
    cluster = resumed(view, CONFIG, AT_ONCE)
    assert cluster.observe().nodes.gpus_used.tolist() == [4, 4, 0]


@pytest.mark.parametrize("text", ["", "(null)", "n[1-", "n1,,n2"])
def test_a_node_list_that_says_nothing_is_no_error(text):
    assert on_to_the_end(with_running(look(FULL), node_list=[text]))[1] == 150.0


def test_a_job_that_runs_in_a_partition_that_is_gone_ends_where_it_runs():
    view = with_running(look(FULL), partition=["gone"], features=["fast"], required_nodes=["hidden1"])
    assert on_to_the_end(view) == {1: 150.0, 2: 160.0}


def test_a_job_whose_limit_was_extended_beyond_its_partition_goes_on():
    view = look(FULL)
    short = replace(view, partitions=replace(view.partitions, max_time_s=np.array([60.0])))
    assert on_to_the_end(short) == {1: 150.0, 2: 160.0}


def test_a_job_past_its_forecast_is_expected_to_need_as_long_again():
    view = look(FULL, after_s=20.0)
    late = replace(view, forecast_running=replace(view.forecast_running, runtime_s=np.array([5.0])))
    assert on_to_the_end(late) == {1: 140.0, 2: 150.0}


def test_a_completing_job_is_given_a_moment():
    view = with_running(look(FULL), state=np.array([int(JobState.COMPLETING)]))
    assert on_to_the_end(view) == {1: 105.0, 2: 115.0}


def test_a_suspended_job_keeps_its_nodes_and_the_simulation_still_ends():
    first = modelled_slurm(FULL, FLEET, AT_ONCE)
    first.advance(101.0)
    first.act([Suspend(1)])
    assert np.isnan(list(on_to_the_end(seen(first)).values())).all()


def test_the_gpus_of_a_job_lie_where_sinfo_says_they_are_in_use():
    view = look(jobs_of((50, 2, 2)))
    uneven = with_running(view, gpus=np.array([4]), node_list=["n[1-2]"])
    uneven = replace(uneven, nodes=replace(uneven.nodes, gpus_used=np.array([3, 1, 0])))
    assert resumed(uneven, CONFIG).observe().nodes.gpus_used.tolist() == [3, 1, 0]


def test_nobody_is_given_gpus_that_a_node_has_not():
    view = with_running(look(jobs_of((50, 1, 4), (50, 1, 4))), node_list=["n1", "n1"])
    assert resumed(view, CONFIG).observe().nodes.gpus_used.tolist() == [4, 0, 0]


def test_nothing_starts_on_a_node_that_drains():
    view = look(jobs_of((50, 3, 4), (10, 3, 4), (10, 1, 4)))
    drained = replace(view, nodes=replace(view.nodes, usable=np.array([False, True, True])))
    found = on_to_the_end(drained)
    assert found[1] == 150.0
    assert np.isnan(found[2])
    assert found[3] == 160.0


def test_a_job_that_left_the_number_of_its_nodes_to_slurm_gets_as_many_as_it_needs():
    view = with_pending(look(FULL), nodes=np.array([1]), gpus=np.array([8]))
    assert unplaced(view, CONFIG) == {}
    assert on_to_the_end(view)[2] == 160.0


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"gpus": np.array([99]), "per_node": [""]}, "it asks for 99 GPUs, more than the 3 nodes"),
        ({"partition": ["gone"]}, "there is no partition gone"),
        ({"features": ["fast"]}, "has the features fast"),
        ({"required_nodes": ["n9"]}, "has no node n9"),
        ({"required_nodes": ["n["]}, "not played forward"),
        ({"excluded_nodes": ["n["]}, "not played forward"),
        ({"memory_mib": np.array([5000.0])}, "has 5000 MiB of memory"),
    ],
)
def test_a_waiting_job_that_no_nodes_can_hold_is_named_with_the_reason(columns, words):
    view = with_pending(look(FULL), **columns)
    assert [row for row, why in unplaced(view, CONFIG).items() if words in why] == [0]
    with pytest.raises((ConfigError, ValueError)):
        resumed(view, CONFIG)


def test_a_waiting_job_with_a_limit_beyond_its_partition_is_named():
    view = look(FULL)
    short = replace(view, partitions=replace(view.partitions, max_time_s=np.array([15.0])))
    assert list(unplaced(short, CONFIG)) == [0]


def test_memory_in_use_does_not_count_where_slurm_does_not_count_it():
    full = look(jobs_of((50, 3, 4), *((10, 1, 1) for _ in range(4))))
    view = with_pending(full, memory_mib=np.full(4, 600.0))
    last_s = []
    for config in (CONFIG, CONFIG | {"SelectTypeParameters": "CR_CORE"}):
        cluster = resumed(view, config, AT_ONCE)
        cluster.advance(np.inf)
        last_s.append(max(ends(cluster).values()))
    assert last_s == [170.0, 160.0]


def test_memory_that_no_node_has_counts_even_where_slurm_does_not_count_what_is_in_use():
    view = with_pending(look(FULL), memory_mib=np.array([5000.0]))
    assert list(unplaced(view, CONFIG | {"SelectTypeParameters": "CR_CORE"})) == [0]


def test_who_waits_for_what_is_not_modelled_keeps_waiting():
    reasons = ["Dependency", "AssocGrpGRES", "ReqNodeNotAvail, UnavailableNodes:n1", "Priority", "JobHeldUser"]
    jobs = look(jobs_of(*[(50, 3, 4)] * 6)).pending
    jobs = replace(jobs, reason=Labels.of(reasons))
    assert barred(jobs, NO_RESERVATIONS).tolist() == [True, True, False, False, False]
    assert held(jobs).tolist() == [False, False, False, False, True]
    with_one = replace(jobs, dependency=Labels.of(["", "", "", "afterok:1(unfulfilled)", ""]))
    assert barred(with_one, NO_RESERVATIONS)[3]


def test_what_was_measured_of_running_and_waiting_jobs_is_known_in_the_simulation():
    def known(jobs: JobTable) -> JobTable:
        return replace(jobs, gpu_util=np.full(len(jobs), 0.4), measured=np.ones(len(jobs), dtype=np.bool_))

    view = look(jobs_of((50, 3, 4), (10, 1, 4)), after_s=5.0)
    state = resumed(replace(view, pending=known(view.pending), running=known(view.running)), CONFIG).observe()
    for jobs in (state.pending, state.running):
        assert (jobs.measured.tolist(), jobs.gpu_util.tolist()) == ([True], [0.4])


def test_our_cycles_end_where_a_job_can_never_start():
    view = look(jobs_of((50, 3, 4), (10, 3, 4), (10, 1, 4)))
    cluster = resumed(replace(view, nodes=replace(view.nodes, usable=np.array([False, True, True]))), CONFIG)
    everyone = FixedForecast(
        np.concatenate([view.pending.job_id, view.running.job_id]), view.forecast.joined(view.forecast_running)
    )
    CycleDriver(cluster, Policy(find_ordering("sjf"), Rules(powers=frozenset({"order"}))), everyone).run()
    assert [job_id for job_id, end_s in ends(cluster).items() if np.isnan(end_s)] == [2]


def test_our_cycles_begin_on_a_cluster_that_nobody_has_come_to():
    jobs = jobs_of((50, 3, 4), (30, 3, 4), (10, 3, 4))
    cluster = modelled_slurm(jobs, FLEET, AT_ONCE)
    said = Forecast(*[jobs.runtime_s.copy() for _ in range(3)], Labels.of(["told"] * 3))
    policy = Policy(find_ordering("sjf"), Rules(powers=frozenset({"order"})))
    CycleDriver(cluster, policy, FixedForecast(jobs.job_id, said), every_s=10.0).run()
    assert ends(cluster) == {1: 150.0, 3: 160.0, 2: 190.0}


def test_a_job_that_waits_again_keeps_its_restarts_and_its_first_submission():
    first = modelled_slurm(jobs_of((50, 3, 4), (10, 1, 4), deadline_s=[2000.0, np.inf]), FLEET, AT_ONCE)
    first.advance(101.0)
    first.act([Requeue(1)])
    first.advance(105.0)
    view = seen(first)
    pending = resumed(view, CONFIG, AT_ONCE).observe().pending
    assert pending.restarts.tolist() == view.pending.restarts.tolist() == [1]
    assert pending.submitted_s.tolist() == [101.0], "Slurm's, which a requeue resets"
    assert pending.first_submit_s.tolist() == view.pending.first_submit_s.tolist() == [100.0]


def test_a_running_job_has_the_time_at_which_it_could_first_run():
    view = look(FULL, after_s=20.0)
    assert resumed(view, CONFIG, AT_ONCE).observe().running.eligible_s.tolist() == [100.0]


def test_a_job_whose_node_went_to_another_partition_holds_its_gpus_and_keeps_its_request():
    parts = partition_of("gpu", "n[1-3]").joined(partition_of("other", "n1"))
    view = replace(look(jobs_of((50, 1, 4))), partitions=parts)
    moved = with_running(view, partition=["other"], required_nodes=["n1"], node_list=["n1"])
    moved = replace(moved, nodes=replace(moved.nodes, partitions=Labels.of(["gpu"] * 3)))
    cluster = resumed(moved, CONFIG, AT_ONCE)
    cluster.validate()
    running = cluster.observe().running
    assert list(running.required_nodes) == ["n1"]
    assert cluster.observe().nodes.gpus_used.tolist() == [4, 0, 0]
