from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, setups, simulate, trace, worlds

from examples import examples
from slurmsched.cli.study.comparison import ComparisonRow, as_csv, unfinished_notes
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import PLACEMENTS, SELECTIONS, Ordering
from slurmsched.policies.presets import PRESETS
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.metrics import Distribution, summary, violations
from slurmsched.simulator.setup import STOCK, Setup
from slurmsched.simulator.traces.source import Source


def ends(replay) -> list[float]:
    return replay.end_s.tolist()


def test_first_come_first_served_waits_behind_a_job_that_does_not_fit():
    jobs = trace((0, 10, 2), (1, 10, 4), (2, 1, 1))
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo"))) == [10, 20, 21]


def test_backfill_lets_whatever_fits_pass():
    jobs = trace((0, 10, 2), (1, 10, 4), (2, 1, 1))
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo", "backfill"))) == [10, 20, 3]


def test_a_short_job_overtakes_a_long_one_that_waits():
    jobs = trace((0, 10, 4), (1, 100, 4), (2, 5, 4))
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("sjf"))) == [10, 115, 15]


def test_a_shorter_job_takes_the_gpus_of_a_running_one():
    jobs = trace((0, 100, 4), (10, 5, 4))
    replay = simulate(jobs, ClusterSpec.of(1, 4), Setup.of("srtf"))
    assert ends(replay) == [105, 15]
    assert replay.stops.tolist() == [1, 0]


def test_going_on_after_a_preemption_costs_its_restart():
    jobs = trace((0, 100, 4), (10, 5, 4))
    replay = simulate(jobs, ClusterSpec.of(1, 4), Setup.of("srtf", restart_s=30.0))
    assert ends(replay) == [135, 15]
    assert summary(replay).lost_gpu_hours == pytest.approx(4 * 30 / 3600)


def test_least_attained_service_shares_by_events():
    jobs = trace((0, 50, 1), (10, 50, 1))
    replay = simulate(jobs, ClusterSpec.of(1, 1), Setup.of("las", beat_s=10.0))
    assert replay.stops.tolist() == [2, 2], "the two take turns"
    assert max(ends(replay)) == 100


def test_a_job_moves_to_a_lower_queue_when_it_passes_a_step_of_service():
    steps = (20.0,)

    def key(view):
        attained = view.pending.ran_s * view.pending.gpus
        return np.searchsorted(steps, attained, side="right") * 1e6 + view.pending.first_submit_s

    two_queues = Setup(Ordering("two-queues", key, "", "while_running", steps), "preemptive")
    replay = simulate(trace((0, 100, 1), (5, 10, 1)), ClusterSpec.of(1, 1), two_queues)
    assert ends(replay) == [110, 30], "the first yields when it has had its 20 s, not when the second comes"


def test_best_fit_leaves_a_whole_node_for_a_big_job():
    jobs = trace((0, 100, 3), (0, 100, 4), (1, 100, 1), (2, 10, 4))
    three_nodes = ClusterSpec.of(3, 4)
    assert simulate(jobs, three_nodes, Setup.of("fifo", "backfill", placement="consolidate")).start_s[3] == 2
    assert simulate(jobs, three_nodes, Setup.of("fifo", "backfill", placement="consolidate")).spread.max() == 1


def test_first_free_spreads_jobs_over_nodes():
    jobs = trace((0, 100, 3), (1, 100, 2))
    assert simulate(jobs, ClusterSpec.of(2, 4), Setup.of("fifo", placement="first-free")).spread.tolist() == [1, 2]


def test_in_a_pool_node_boundaries_do_not_count():
    jobs = trace((0, 10, 3), (0, 10, 3), (0, 10, 2))
    assert ends(simulate(jobs, ClusterSpec.of(2, 4), Setup.of("fifo", placement="pool"))) == [10, 10, 10]
    assert ends(simulate(jobs, ClusterSpec.of(2, 4), Setup.of("fifo", placement="consolidate"))) == [10, 10, 20]


def test_whom_spreading_slows_down_is_kept_together_and_others_take_what_is_free():
    jobs = trace((0, 100, 3), (1, 100, 2), (2, 100, 2), sensitive=[False, False, True])
    three_nodes = ClusterSpec.of(3, 4)
    assert simulate(jobs, three_nodes, Setup.of("fifo", placement="tiresias-skew")).spread.tolist() == [1, 2, 1]
    spread = simulate(jobs, three_nodes, Setup.of("fifo", placement="consolidate")).spread
    assert spread.tolist() == [1, 1, 1]


def test_going_on_costs_more_the_more_gpus_a_job_has():
    jobs = trace((0, 100, 4), (10, 5, 4))
    setup = Setup.of("srtf", restart_s=30.0, restart_doubling_s=10.0)
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), setup)) == [155, 15], "two doublings lead to 4 GPUs"


def test_a_job_comes_in_when_those_inside_ask_for_little_enough():
    jobs = trace((0, 100, 4), (1, 50, 4), (2, 5, 4))
    one_node = ClusterSpec.of(1, 4)
    assert ends(simulate(jobs, one_node, Setup.of("sjf"))) == [100, 155, 105]
    assert ends(simulate(jobs, one_node, Setup.of("sjf", admission=1.0))) == [100, 150, 155], "sjf never saw the third"
    assert ends(simulate(jobs, one_node, Setup.of("sjf", admission=2.0))) == [100, 155, 105], "it did when one was gone"


def test_nobody_passes_at_the_gate():
    jobs = trace((0, 10, 2), (1, 10, 3), (2, 1, 1))
    replay = simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo", "backfill", admission=1.0))
    assert replay.start_s.tolist() == [0, 10, 10], "the third fits beside the first and waits behind the second"


def test_a_job_that_asks_for_more_than_may_come_in_comes_in_alone():
    jobs = trace((0, 10, 1), (1, 10, 4), (2, 10, 1))
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo", admission=0.5))) == [10, 20, 30]


@pytest.mark.parametrize("selection", ["strict", "backfill", "easy", "conservative", "preemptive"])
@examples(40)
@given(world=worlds(), admission=st.sampled_from([0.3, 0.7, 1.0, 1.5]))
def test_no_job_starts_before_the_gate_would_have_let_it_in(selection, world, admission):
    jobs, fleet = world
    replay = simulate(jobs, fleet, Setup.of("sjf", selection, admission=admission))
    inside: list[int] = []
    now_s = 0.0
    for row in range(len(jobs)):
        now_s = max(now_s, jobs.submit_s[row])
        inside = [other for other in inside if replay.end_s[other] > now_s]
        while inside and jobs.gpus[[*inside, row]].sum() > admission * fleet.total:
            now_s = min(replay.end_s[inside])
            inside = [other for other in inside if replay.end_s[other] > now_s]
        inside.append(row)
        assert replay.start_s[row] >= now_s


def test_gpus_are_idle_while_a_job_waits_and_wasted_while_it_could_have_had_them():
    jobs = trace((0, 10, 2), (1, 10, 4), (2, 1, 1))
    replay = simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo"))
    assert (replay.idle_gpu_s, replay.fragmented_gpu_s) == (9 * 2, 8 * 2)
    replay = simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo", "backfill"))
    assert (replay.idle_gpu_s, replay.fragmented_gpu_s) == (1 * 2 + 1 * 1 + 7 * 2, 0)


def test_who_waits_outside_the_gate_makes_gpus_idle_and_none_wasted():
    replay = simulate(trace((0, 10, 2), (1, 10, 2)), ClusterSpec.of(1, 4), Setup.of("fifo", admission=0.5))
    assert (replay.idle_gpu_s, replay.fragmented_gpu_s) == (9 * 2, 0)


@pytest.mark.parametrize("name", ["fifo", "wfq"])
@pytest.mark.parametrize("selection", ["strict", "backfill", "easy", "conservative", "preemptive"])
def test_with_a_beat_nothing_starts_between_two(selection, name):
    jobs = trace((0, 3, 4), (1, 10, 2), (12, 10, 2), time_limit_s=[3, 10, 10])
    for run in (simulate, decided):
        replay = run(jobs, ClusterSpec.of(1, 4), Setup.of(name, selection, beat_s=10.0))
        assert replay.start_s.tolist() == [0, 10, 20]


def test_the_earliest_deadline_comes_first_and_jobs_without_one_last():
    jobs = trace((0, 10, 4), (1, 10, 4), (2, 10, 4), (3, 10, 4), deadline_s=[np.inf, np.inf, 90, 80])
    assert simulate(jobs, ClusterSpec.of(1, 4), Setup.of("edf")).start_s.tolist() == [0, 30, 20, 10]


def test_a_job_that_starves_is_taken_up_again():
    hour_s = 3600.0
    # a stream of fresh jobs keeps the first, in its second queue after an hour, from running
    jobs = trace((0, 2 * hour_s, 1), *((60 + 1800 * number, 1800, 1) for number in range(40)))
    one_gpu = ClusterSpec.of(1, 1)
    starved = simulate(jobs, one_gpu, Setup.of("tiresias"))
    promoted = simulate(jobs, one_gpu, Setup.of("tiresias-promoting"))
    assert starved.end_s[0] == starved.end_s.max()
    assert 9 * hour_s <= promoted.end_s[0] < starved.end_s[0], "it ran one hour and waits eight"


DIRECT = sorted(set(PRESETS) - {STOCK})


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
@examples(10)
@given(world=worlds(), name=st.sampled_from(DIRECT), data=st.data())
def test_the_loops_for_a_pool_do_what_the_daemons_decisions_do(world, name, placement, data):
    jobs, fleet = world
    setup = data.draw(setups(name, placement))
    # Which nodes a preempting selection clears is decided node by node; the loops for a pool count GPUs alone.
    if setup.selection == "preemptive" and placement != "pool":
        fleet = ClusterSpec.of(1, fleet.total)
    fast, slow = simulate(jobs, fleet, setup), decided(jobs, fleet, setup)
    assert fast.start_s.tolist() == slow.start_s.tolist()
    assert fast.end_s == pytest.approx(slow.end_s)
    assert fast.stops.tolist() == slow.stops.tolist()
    assert fast.spread.tolist() == slow.spread.tolist()
    assert fast.idle_gpu_s == pytest.approx(slow.idle_gpu_s)
    if setup.admission == np.inf:  # the cluster beside decisions does not know which jobs are admitted
        assert fast.fragmented_gpu_s == pytest.approx(slow.fragmented_gpu_s)
    assert violations(fast) == []


def test_a_third_party_ordering_that_changes_with_time_is_called_at_each_decision():
    aging = Ordering("aging", lambda view: view.pending.first_submit_s - view.now_s, "", "with_time")
    jobs = trace((0, 10, 4), (1, 100, 4), (2, 5, 4))
    assert ends(simulate(jobs, ClusterSpec.of(1, 4), Setup(aging, "backfill"))) == [10, 110, 115]


def test_an_ordering_that_changes_with_time_is_asked_anew_before_each_reservation():
    # the second, older and longer, has the smaller key until second 20
    turning = Ordering("turning", lambda view: np.where(view.now_s < 20, 1, -1) * view.pending.job_id, "", "with_time")
    jobs = trace((0, 20, 4), (1, 10, 4), (2, 5, 4), time_limit_s=[20, 10, 5])
    for selection in ("easy", "conservative"):
        assert simulate(jobs, ClusterSpec.of(1, 4), Setup(turning, selection)).start_s.tolist() == [0, 25, 20]


def test_a_job_larger_than_the_cluster_is_named():
    with pytest.raises(ConfigError, match="job 1 asks for 9 GPUs and the cluster has 8"):
        simulate(trace((0, 1, 9)), ClusterSpec.of(2, 4), Setup.of("fifo"))


def test_an_unknown_part_of_a_policy_is_told_with_what_there_is():
    names = ", ".join(sorted(SELECTIONS))
    with pytest.raises(ConfigError, match=f"selection = 'best' is not known; there are: {names}"):
        Setup.of("fifo", "best")


def test_forecasts_by_time_limit_need_one():
    with pytest.raises(ConfigError, match="job 1 and 0 others have no time limit"):
        simulate(trace((0, 1, 1)), ClusterSpec.of(1, 1), Setup.of("sjf", forecast="limit"))


def test_an_empty_trace_is_no_error():
    figures = summary(simulate(trace(), ClusterSpec.of(1, 1), Setup.of("srtf")))
    assert figures.jobs == 0
    assert np.isnan(figures.jct_s.mean)


def test_impossible_replays_are_found_out():
    replay = simulate(trace((0, 10, 4), (0, 10, 4)), ClusterSpec.of(1, 4), Setup.of("fifo"))
    assert violations(replay) == []
    replay.start_s[1], replay.end_s[1] = 5.0, 15.0
    assert violations(replay) == ["8 GPUs were in use and 4 exist"]
    replay.start_s[1] = -1.0
    assert len(violations(replay)) == 3
    replay.end_s[0] = np.nan
    assert violations(replay) == ["1 job never ended"]


def test_where_a_job_did_not_end_in_the_replay_it_is_named_beside_the_missing_mean():
    replay = simulate(trace((0, 10, 4), (0, 10, 4)), ClusterSpec.of(1, 4), Setup.of("fifo"))
    whole = summary(replay)
    replay.end_s[1] = np.nan
    cut = summary(replay)
    assert (whole.unfinished, cut.unfinished) == ((), (int(replay.workload.job_id[1]),))
    case = Case(Source.of("synthetic:2", 4))
    rows = [ComparisonRow(case, one, None, None) for one in (whole, cut)]
    told = f"fifo: 1 of 2 jobs did not end in the replay ({cut.unfinished[0]}): no mean of its times is known"
    assert list(unfinished_notes(rows)) == [told]
    assert [line["unfinished"] for line in csv.DictReader(io.StringIO(as_csv(rows)))] == ["0", "1"]


def test_a_distribution_has_its_mean_and_percentiles():
    spread = Distribution.of(np.arange(101.0))
    assert (spread.mean, spread.median, spread.p90, spread.p99) == (50, 50, 90, 99)


def test_a_job_kept_together_does_not_keep_one_out_that_need_not_be():
    jobs = trace((0, 9, 3), (0, 9, 3), (1, 9, 2), (1, 9, 2), sensitive=[True, True, True, False])
    replay = simulate(jobs, ClusterSpec.of(2, 4), Setup.of("fifo", "backfill", placement="tiresias-skew"))
    assert replay.start_s.tolist() == [0, 0, 9, 1]


@pytest.mark.parametrize("part", [{"admission": 0.0}, {"restart_s": -1.0}, {"beat_s": np.nan}, {"depth": 0}])
def test_a_figure_that_makes_no_sense_is_refused(part):
    with pytest.raises(ConfigError, match=rf"{next(iter(part))} .* makes no sense; accepted: "):
        Setup.of("sjf", **part)
