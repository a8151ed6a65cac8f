from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import simulate, trace

from slurmsched.cli.output import emit
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.fairness import rho
from slurmsched.simulator.report.metrics import Summary, summary
from slurmsched.simulator.report.timeline import Timeline
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload


def told(runtime_s: list[float]) -> Forecast:
    column = np.array(runtime_s)
    return Forecast(column, column.copy(), column.copy(), Labels.of(["a test"] * len(column)))


def forecast(jobs: Workload, *runtime_s: float) -> Replay:
    setup = Setup.of("fifo", forecast="history")
    return simulate(jobs, ClusterSpec.of(1, 4), setup, learnt=told(list(runtime_s)))


def printed(figures: Summary, capsys) -> dict:
    emit({"policies": [asdict(figures)]}, as_json=True)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(capsys.readouterr().out, parse_constant=refuse)["policies"][0]


def test_a_job_alone_that_never_waits_has_its_fair_share():
    assert rho(simulate(trace((0, 100, 4)), ClusterSpec.of(1, 4), Setup.of("fifo"))) == pytest.approx([1.0])


def test_two_jobs_that_each_want_the_whole_cluster_could_fairly_have_half():
    replay = simulate(trace((0, 100, 4), (0, 100, 4)), ClusterSpec.of(1, 4), Setup.of("fifo"))
    # The first sees 2 jobs for its 100 s, the second 2 for 100 s and then 1: on average 1.5.
    assert rho(replay) == pytest.approx([100 / (100 * 2), 200 / (100 * 1.5)])
    figures = summary(replay).fairness
    assert figures.mean_rho == pytest.approx((1 / 2 + 4 / 3) / 2)
    assert figures.unfairness == pytest.approx((0 + 1 / 3) / 2), "only those above 1 count"
    assert 1 / 2 < figures.p99_rho < 4 / 3


def test_a_small_job_among_few_is_owed_its_runtime_only():
    replay = simulate(trace((0, 100, 4), (0, 10, 1)), ClusterSpec.of(1, 4), Setup.of("fifo"))
    assert rho(replay)[1] == pytest.approx(110 / 10), "one GPU of four is less than half of them"


def test_a_job_without_runtime_has_no_rho_and_spoils_none():
    replay = simulate(trace((0, 0, 4), (0, 100, 4)), ClusterSpec.of(1, 4), Setup.of("fifo"))
    assert np.isnan(rho(replay)[0])
    assert summary(replay).fairness.mean_rho == pytest.approx(1.0)


INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 5)), max_size=25)


@given(intervals=INTERVALS, first=st.integers(-5, 60), length=st.integers(1, 30))
def test_a_timeline_agrees_with_counting_second_by_second(intervals, first, length):
    from_s = np.array([float(start) for start, _, _ in intervals])
    to_s = np.array([float(start + lasts) for start, lasts, _ in intervals])
    weight = np.array([float(weight) for _, _, weight in intervals])
    line = Timeline.of(from_s, to_s, weight)
    seconds = range(first, first + length)
    counted = [sum(w for start, lasts, w in intervals if start <= second < start + lasts) for second in seconds]
    mean = line.mean(np.array([float(first)]), np.array([float(first + length)]))
    assert mean[0] == pytest.approx(sum(counted) / length, abs=1e-9)


@given(intervals=INTERVALS)
def test_a_timeline_of_unix_times_is_as_exact_as_one_from_zero(intervals):
    from_s = np.array([float(start) for start, _, _ in intervals])
    to_s = from_s + np.array([float(lasts) for _, lasts, _ in intervals])
    here = Timeline.of(from_s, to_s).mean(from_s, to_s)
    there = Timeline.of(from_s + 1.7e9, to_s + 1.7e9).mean(from_s + 1.7e9, to_s + 1.7e9)
    assert there == pytest.approx(here, nan_ok=True)


def test_a_span_without_length_has_no_mean():
    assert np.isnan(Timeline.of(np.array([0.0]), np.array([9.0])).mean(np.array([3.0]), np.array([3.0])))


def test_free_gpus_count_as_idle_and_fragmented_shares_of_the_makespan():
    replay = simulate(trace((0, 100, 4)), ClusterSpec.of(2, 4), Setup.of("fifo"))
    figures = summary(replace(replay, idle_gpu_s=200.0, fragmented_gpu_s=80.0))
    assert (figures.idle_while_waiting, figures.fragmentation) == (200 / 800, 80 / 800)


def test_a_restart_costs_more_for_each_doubling_of_the_gpus():
    replay = simulate(
        trace((0, 100, 4), (10, 5, 4)), ClusterSpec.of(1, 4), Setup.of("srtf", restart_s=30.0, restart_doubling_s=10.0)
    )
    assert replay.stops.tolist() == [1, 0]
    assert summary(replay).lost_gpu_hours == pytest.approx(4 * (30 + 2 * 10) / 3600)


def test_a_comparison_calls_a_policy_by_the_name_it_was_given():
    jobs = trace((0, 1, 1))
    assert (
        summary(simulate(jobs, ClusterSpec.of(1, 1), replace(Setup.of("fifo"), name="as today"))).policy == "as today"
    )
    assert summary(simulate(jobs, ClusterSpec.of(1, 1), Setup.of("fifo"))).policy == "fifo"


def test_deadlines_are_missed_by_those_that_end_after_them():
    jobs = trace((0, 10, 4), (0, 10, 4), (0, 10, 4), (0, 10, 4), deadline_s=[10, 15, math.inf, 40])
    figures = summary(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo")))
    assert figures.deadline_miss_rate == pytest.approx(1 / 3), "ends are 10, 20, 30 and 40; one has no deadline"
    assert figures.weighted_deadline_miss_rate == pytest.approx(1 / 3), "without rewards each is worth the same"


def test_a_soft_deadline_met_late_earns_the_part_of_the_first_step_it_meets():
    jobs = trace(
        (0, 10, 4), (0, 10, 4), (0, 10, 4), (0, 10, 4),
        deadline_s=[10, 15, 15, 15],
        rewards=["1@10,0.5@12", "1@15,0.8@20,0.5@99", "1@15,0.8@20", ""],
    )  # fmt: skip
    figures = summary(simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo")))
    assert figures.deadline_miss_rate == pytest.approx(3 / 4)
    assert figures.weighted_deadline_miss_rate == pytest.approx(1 - (1 + 0.8 + 0 + 0) / 4)


def test_an_end_on_the_deadline_meets_it_whatever_the_last_bits_say():
    start, runtime = 0.1, 0.2
    jobs = trace((start, runtime, 1), deadline_s=[0.3])
    replay = simulate(jobs, ClusterSpec.of(1, 1), Setup.of("fifo"))
    assert replay.end_s[0] > 0.3
    assert summary(replay).deadline_miss_rate == 0


def test_forecasts_are_judged_against_the_runtimes_that_came():
    jobs = trace((0, 10, 1), (0, 100, 1), (0, 1000, 1), (0, 50, 1))
    found = summary(forecast(jobs, 20, 100, 500, math.nan)).accuracy
    assert found.unforecast == 1 / 4
    assert found.median_error == pytest.approx(0.5)
    assert found.mean_error == pytest.approx((1 + 0 + 0.5) / 3)
    spread = 2 * math.log(10) ** 2
    assert found.r2_log == pytest.approx(1 - 2 * math.log(2) ** 2 / spread)


def test_a_forecast_of_the_mean_of_log_runtime_explains_nothing():
    assert summary(forecast(trace((0, 10, 1), (0, 1000, 1)), 100, 100)).accuracy.r2_log == pytest.approx(0)


def test_who_is_told_the_truth_makes_no_errors_worth_a_figure():
    assert np.isnan(summary(simulate(trace((0, 10, 1)), ClusterSpec.of(1, 1), Setup.of("sjf"))).accuracy.median_error)


def test_what_does_not_apply_is_null_in_json(capsys):
    row = printed(summary(simulate(trace((0, 10, 1)), ClusterSpec.of(1, 1), Setup.of("fifo"))), capsys)
    assert row["deadline_miss_rate"] is None
    assert row["accuracy"] == {"median_error": None, "mean_error": None, "r2_log": None, "unforecast": None}
    assert row["fairness"] == {"mean_rho": 1.0, "p99_rho": 1.0, "unfairness": 0.0}


@pytest.mark.parametrize("forecast", ["exact", "history"])
def test_an_empty_trace_has_figures_that_json_can_hold(capsys, forecast):
    replay = simulate(trace(), ClusterSpec.of(1, 1), Setup.of("srtf", forecast=forecast), learnt=told([]))
    row = printed(summary(replay), capsys)
    assert (row["jobs"], row["utilisation"], row["fairness"]["mean_rho"]) == (0, 0.0, None)


def test_jobs_without_gpus_are_no_spread_jobs():
    jobs = trace((0, 10, 1))
    replay = replace(
        simulate(jobs, ClusterSpec.of(1, 4), Setup.of("fifo")), workload=replace(jobs, gpus=np.zeros(1, dtype=np.int64))
    )
    assert summary(replay).spread_jobs == 0
