"""Rounds of leases, and promises that are kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.simulator.leases.presets import misjudged, replay
from slurmsched.simulator.leases.terms import Terms
from slurmsched.simulator.leases.world import LeaseRules, RuntimeEstimates
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.workload import workload

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/chronus_philly_mix2.csv"
DATA = Path(os.environ.get("SLURMSCHED_TRACES", ROOT.parent / "shared/data"))
MINUTE_S = 60.0
FREE = LeaseRules(resume_s=0.0)


def jobs(*rows):
    """Each is (submit, runtime, GPUs, "share@minutes,..." or "" for best effort), in minutes."""
    submit, runtime, gpus, steps = zip(*rows, strict=True)
    first = [float(one.split(",")[0].split("@")[1]) if one else np.inf for one in steps]

    def seconds(one):
        pairs = [pair.split("@") for pair in one.split(",") if pair]
        return ",".join(f"{share}@{float(within) * MINUTE_S:g}" for share, within in pairs)

    return workload(
        len(rows),
        submit_s=np.array(submit) * MINUTE_S,
        runtime_s=np.array(runtime) * MINUTE_S,
        gpus=gpus,
        deadline_s=(np.array(submit) + np.array(first)) * MINUTE_S,
        best_effort=[not one for one in steps],
        rewards=[seconds(one) for one in steps],
    )


def ends_min(outcome):
    return (outcome.world.end_s / MINUTE_S).tolist()


def test_a_job_with_time_to_spare_lets_a_shorter_one_pass():
    asked = jobs((0, 60, 4, "1@300"), (0, 30, 4, ""))
    assert ends_min(replay(asked, 4)) == [90, 30]


def test_a_job_without_time_to_spare_goes_first():
    asked = jobs((0, 60, 4, "1@70"), (0, 30, 4, ""))
    assert ends_min(replay(asked, 4)) == [60, 90]


def test_a_job_that_would_break_a_promise_is_promised_its_next_step_or_nothing():
    asked = jobs((0, 60, 4, "1@65"), (0, 60, 4, "1@70,0.5@130"), (0, 60, 4, "1@75"))
    outcome = replay(asked, 4)
    assert outcome.promises[:3] == (2, 1, 0)
    assert ends_min(outcome)[:2] == [60, 120]
    assert outcome.figures.weighted_miss == pytest.approx(0.5)


def test_after_a_refusal_long_jobs_get_no_promise_for_the_last_gpus():
    crowd, long = [(0, 60, 1, "1@62")] * 10, [(100, 500, 4, "1@510")] * 2
    assert replay(jobs(*crowd[:9], *long), 10).promises[:2] == (11, 0)
    refused = replay(jobs(*crowd, *long), 10)
    assert refused.promises[:2] == (10, 2)
    assert refused.figures.miss == 0


def test_after_a_refusal_more_is_kept_from_wide_jobs_than_from_as_many_gpus_of_narrow_ones():
    crowd = [(0, 60, 1, "1@62")] * 10
    assert replay(jobs(*crowd, *[(100, 90, 1, "1@95")] * 8), 10).promises[:2] == (17, 1)
    assert replay(jobs(*crowd, *[(100, 90, 4, "1@95")] * 2), 10).promises[:2] == (10, 2)


def test_a_narrow_job_without_a_promise_goes_before_a_shorter_one_that_a_wide_job_lets_pass():
    for gpus, end in ((1, 60), (4, 75)):
        asked = jobs((0, 60, gpus, "1@70"), (0, 15, 4, ""))
        unsure = RuntimeEstimates(np.array([60.0, 15.0]) * MINUTE_S, np.array([90.0, 15.0]) * MINUTE_S)
        assert ends_min(replay(asked, 4, estimates=unsure))[0] == end


def test_going_on_after_a_stop_costs_more_on_more_gpus():
    for gpus, cost_min in ((1, 0.5), (4, 1.5)):
        outcome = replay(jobs((0, 60, gpus, ""), (5, 20, gpus, "")), gpus)
        assert outcome.world.stops.tolist() == [1, 0]
        assert ends_min(outcome) == [80 + cost_min, 25]


def test_arrivals_are_seen_on_the_beat():
    assert ends_min(replay(jobs((6, 7, 1, "")), 1, FREE)) == [17]


def test_a_job_wider_than_the_cluster_is_refused():
    with pytest.raises(ValueError, match="accepted are 1 to 4"):
        replay(jobs((0, 1, 8, "")), 4)


def test_the_upper_decile_covers_most_of_what_is_misjudged():
    runtime_s = np.full(20_000, 1000.0)
    known = misjudged(runtime_s, 0.2, seed=1)
    assert np.mean(known.high_s >= runtime_s) == pytest.approx(0.9, abs=0.01)
    assert np.mean(known.median_s >= runtime_s) == pytest.approx(0.5, abs=0.01)


def test_an_owner_is_told_in_time_that_a_job_outlasts_its_forecast():
    asked = jobs((0, 100, 1, "1@120"), (0, 60, 1, ""))
    known = RuntimeEstimates(np.array([60.0, 60.0]) * MINUTE_S, np.array([80.0, 80.0]) * MINUTE_S)
    on_time = jobs((0, 60, 1, "1@120"), (0, 60, 1, ""))
    assert replay(on_time, 2, estimates=known).promises[2:] == (0, 0, 0)
    late = jobs((0, 150, 1, "1@120"), (0, 60, 1, ""))
    assert replay(late, 2, estimates=known).promises[2:] == (1, 1, 0)
    assert replay(asked, 2, estimates=known).promises[2:4] == (0, 0)


def test_a_job_without_a_promise_that_may_make_its_deadline_goes_before_a_somewhat_shorter_one():
    asked = jobs((0, 60, 4, "1@70"), (0, 30, 4, ""))
    unsure = RuntimeEstimates(np.array([60.0, 30.0]) * MINUTE_S, np.array([90.0, 40.0]) * MINUTE_S)
    hoped = replay(asked, 4, estimates=unsure)
    assert hoped.promises[:2] == (0, 1)
    assert ends_min(hoped)[0] == 60
    assert ends_min(replay(asked, 4, estimates=unsure, terms=Terms(hope=1.0)))[0] > 70


def test_a_job_that_cannot_make_its_deadline_any_more_waits_like_best_effort():
    asked = jobs((0, 60, 4, "1@50"), (0, 30, 4, ""))
    assert ends_min(replay(asked, 4)) == [90, 30]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 90),
        st.sampled_from([1, 2, 4]),
        st.sampled_from(["", "1@60", "1@120,0.5@200"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_every_job_ends_after_its_work_and_no_more_gpus_are_used_than_exist(rows):
    asked = jobs(*sorted(rows))
    world = replay(asked, 4).world
    begun = world.started_s
    assert np.all(begun >= asked.submit_s)
    assert np.all(world.end_s - begun >= asked.runtime_s - 1e-6)
    assert float((asked.runtime_s * asked.gpus).sum()) <= 4 * (world.end_s.max() - begun.min()) + 1e-6


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_promises_of_a_free_stop_and_exact_runtimes_on_single_gpus_are_kept(rows):
    asked = jobs(*sorted((submit, runtime, 1, steps) for submit, runtime, _, steps in rows))
    assert replay(asked, 2, FREE).promises.broken == 0


def test_on_the_first_rows_of_chronus_own_trace_every_promise_is_kept():
    trace = Source.of(str(SAMPLE), 32).load().workload
    jobs_on_gpus = trace.take((trace.gpus > 0) & (trace.gpus <= 32))
    promises = replay(jobs_on_gpus, 32).promises
    assert promises.guaranteed > 0
    assert promises.broken == 0


@pytest.mark.skipif(
    not (DATA / "chronus_philly_mix1.csv").exists(),
    reason="needs Chronus' whole traces in $SLURMSCHED_TRACES: tests/data/README.md says where they are from",
)
@pytest.mark.parametrize(("mix", "best_effort_jct_min"), [("mix1", 300), ("mix2", 450)])
def test_on_a_contended_day_of_chronus_own_trace_every_promise_is_kept(mix, best_effort_jct_min):
    trace = Source.of(str(DATA / f"chronus_philly_{mix}.csv"), 480).load().workload
    day = trace.take((trace.gpus > 0) & (trace.submit_s <= 1440 * MINUTE_S))
    outcome = replay(day, 480)
    assert outcome.figures.weighted_miss <= 0.002
    assert outcome.figures.best_effort_jct_min <= best_effort_jct_min
    assert outcome.promises[1:3] == (0, 0)
    if mix == "mix1":
        on_nodes = replay(day, 480, node_gpus=8)
        assert on_nodes.promises[1:3] == (0, 0)
        again = np.random.default_rng(1).choice(len(day), 3 * len(day) // 5, replace=False)
        crowded = replay(day.take(np.sort(np.concatenate([np.arange(len(day)), again]))), 480).promises
        assert crowded.rejected > 500
        assert crowded.broken == 0
    made = replay(day, 480, estimates=misjudged(day.runtime_s, 0.2, seed=5)).promises
    assert 0 < made.broken <= 0.05 * made.guaranteed
    assert made.announced >= 0.9 * made.broken
    assert made.alarms <= 0.1 * (made.guaranteed - made.broken)
