from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.errors import ConfigError
from slurmsched.policies.hooks import Ordering
from slurmsched.policies.placement import PLACEMENTS
from slurmsched.simulator.experiment import PRESETS, Setup, simulate
from slurmsched.simulator.fleet import Fleet
from slurmsched.simulator.metrics import Spread, summary, violations
from slurmsched.simulator.workload import Workload, workload


def trace(*jobs: tuple[float, float, int]) -> Workload:
    """Jobs as (submit, runtime, GPUs), sorted by submit."""
    rows = sorted(jobs, key=lambda job: job[0])
    return workload(
        len(rows),
        job_id=np.arange(1, len(rows) + 1),
        submit_s=[submit for submit, _, _ in rows],
        runtime_s=[runtime for _, runtime, _ in rows],
        gpus=[gpus for _, _, gpus in rows],
    )


@st.composite
def traces(draw) -> tuple[Workload, Fleet]:
    nodes = Fleet.of(draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 4, 8])))
    gpus = st.integers(1, min(nodes.total, 9))
    # whole seconds: many events fall on one instant, which is where loops differ
    jobs = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), gpus), min_size=1, max_size=30))
    return trace(*jobs), nodes


def ends(replay) -> list[float]:
    return replay.end_s.tolist()


def test_first_come_first_served_waits_behind_a_job_that_does_not_fit():
    jobs = trace((0, 10, 2), (1, 10, 4), (2, 1, 1))
    assert ends(simulate(jobs, Fleet.of(1, 4), Setup.of("fifo"))) == [10, 20, 21]


def test_backfill_lets_whatever_fits_pass():
    jobs = trace((0, 10, 2), (1, 10, 4), (2, 1, 1))
    assert ends(simulate(jobs, Fleet.of(1, 4), Setup.of("fifo", "backfill"))) == [10, 20, 3]


def test_a_short_job_overtakes_a_long_one_that_waits():
    jobs = trace((0, 10, 4), (1, 100, 4), (2, 5, 4))
    assert ends(simulate(jobs, Fleet.of(1, 4), Setup.of("sjf"))) == [10, 115, 15]


def test_a_shorter_job_takes_the_gpus_of_a_running_one():
    jobs = trace((0, 100, 4), (10, 5, 4))
    replay = simulate(jobs, Fleet.of(1, 4), Setup.of("srtf"))
    assert ends(replay) == [105, 15]
    assert replay.stops.tolist() == [1, 0]


def test_going_on_after_a_preemption_costs_its_restart():
    jobs = trace((0, 100, 4), (10, 5, 4))
    replay = simulate(jobs, Fleet.of(1, 4), Setup.of("srtf", restart_s=30.0))
    assert ends(replay) == [135, 15]
    assert summary(replay).lost_gpu_hours == pytest.approx(4 * 30 / 3600)


def test_least_attained_service_shares_by_events():
    jobs = trace((0, 50, 1), (10, 50, 1))
    replay = simulate(jobs, Fleet.of(1, 1), Setup.of("las", beat_s=10.0))
    assert replay.stops.tolist() == [2, 2], "the two take turns"
    assert max(ends(replay)) == 100


def test_a_job_moves_to_a_lower_queue_when_it_passes_a_step_of_service():
    steps = (20.0,)

    def key(view):
        attained = view.pending.ran_s * view.pending.gpus
        return np.searchsorted(steps, attained, side="right") * 1e6 + view.pending.first_submit_s

    two_queues = Setup(Ordering("two-queues", key, "", "while_running", steps), "preemptive")
    replay = simulate(trace((0, 100, 1), (5, 10, 1)), Fleet.of(1, 1), two_queues)
    assert ends(replay) == [110, 30], "the first yields when it has had its 20 s, not when the second comes"


def test_best_fit_leaves_a_whole_node_for_a_big_job():
    jobs = trace((0, 100, 3), (0, 100, 4), (1, 100, 1), (2, 10, 4))
    three_nodes = Fleet.of(3, 4)
    assert simulate(jobs, three_nodes, Setup.of("fifo", "backfill", placement="consolidate")).start_s[3] == 2
    assert simulate(jobs, three_nodes, Setup.of("fifo", "backfill", placement="consolidate")).spread.max() == 1


def test_first_free_spreads_jobs_over_nodes():
    jobs = trace((0, 100, 3), (1, 100, 2))
    assert simulate(jobs, Fleet.of(2, 4), Setup.of("fifo", placement="first-free")).spread.tolist() == [1, 2]


def test_in_a_pool_node_boundaries_do_not_count():
    jobs = trace((0, 10, 3), (0, 10, 3), (0, 10, 2))
    assert ends(simulate(jobs, Fleet.of(2, 4), Setup.of("fifo", placement="pool"))) == [10, 10, 10]
    assert ends(simulate(jobs, Fleet.of(2, 4), Setup.of("fifo", placement="consolidate"))) == [10, 10, 20]


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
@pytest.mark.parametrize("name", sorted(PRESETS))
@settings(max_examples=40, deadline=None)
@given(world=traces(), selection=st.sampled_from([None, "strict", "backfill", "preemptive"]))
def test_the_compiled_loops_and_the_generic_one_agree(world, name, placement, selection):
    jobs, nodes = world
    setup = Setup.of(name, selection, placement=placement, restart_s=2.0)
    fast, slow = simulate(jobs, nodes, setup), simulate(jobs, nodes, setup, generic=True)
    assert fast.start_s.tolist() == slow.start_s.tolist()
    assert fast.end_s == pytest.approx(slow.end_s)
    assert fast.stops.tolist() == slow.stops.tolist()
    assert fast.spread.tolist() == slow.spread.tolist()
    assert violations(fast) == []


def test_a_third_party_ordering_that_changes_with_time_runs_through_the_generic_loop():
    aging = Ordering("aging", lambda view: view.pending.first_submit_s - view.now_s, "", "with_time")
    jobs = trace((0, 10, 4), (1, 100, 4), (2, 5, 4))
    assert ends(simulate(jobs, Fleet.of(1, 4), Setup(aging, "backfill"))) == [10, 110, 115]


def test_a_job_larger_than_the_cluster_is_named():
    with pytest.raises(ConfigError, match="job 1 asks for 9 GPUs and the cluster has 8"):
        simulate(trace((0, 1, 9)), Fleet.of(2, 4), Setup.of("fifo"))


def test_an_unknown_part_of_a_policy_is_told_with_what_there_is():
    with pytest.raises(
        ConfigError, match=r"selection 'best' is not known; there are: strict, backfill, easy, conservative, preemptive"
    ):
        Setup.of("fifo", "best")


def test_forecasts_by_time_limit_need_one():
    with pytest.raises(ConfigError, match="job 1 and 0 others have no time limit"):
        simulate(trace((0, 1, 1)), Fleet.of(1, 1), Setup.of("sjf", forecast="limit"))


def test_an_empty_trace_is_no_error():
    figures = summary(simulate(trace(), Fleet.of(1, 1), Setup.of("srtf")))
    assert figures.jobs == 0
    assert np.isnan(figures.jct_s.mean)


def test_impossible_replays_are_found_out():
    replay = simulate(trace((0, 10, 4), (0, 10, 4)), Fleet.of(1, 4), Setup.of("fifo"))
    assert violations(replay) == []
    replay.start_s[1], replay.end_s[1] = 5.0, 15.0
    assert violations(replay) == ["8 GPUs were in use and 4 exist"]
    replay.start_s[1] = -1.0
    assert len(violations(replay)) == 3
    replay.end_s[0] = np.nan
    assert violations(replay) == ["1 jobs never ended"]


def test_a_distribution_has_its_mean_and_percentiles():
    spread = Spread.of(np.arange(101.0))
    assert (spread.mean, spread.median, spread.p90, spread.p99) == (50, 50, 90, 99)
