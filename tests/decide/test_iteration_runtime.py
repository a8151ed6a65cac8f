"""Jobs whose script says how long an iteration takes are planned by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, running_jobs, view
from hypothesis import assume, given
from hypothesis import strategies as st

from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.deadlines.iteration_runtime import SUPPORT, paced
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

HOUR_S = 3600.0
LIMIT_S = 10 * HOUR_S
PACED = "slurmsched:deadline=+6h,iterations=2000,pace=1.8"  # an hour
GOES_ON = PACED.replace("2000", "2100") + ",done=100"  # an hour too, after three minutes
RAN_S = 300.0  # with two minutes for the start
PLANNED_S = pytest.approx(1.25 * HOUR_S, rel=0.01)  # its upper decile


def asking(*comments, deadline_s=NOW_S + 2 * HOUR_S, **columns):
    known = {"time_limit_s": np.full(len(comments), LIMIT_S), "deadline_s": np.full(len(comments), deadline_s)}
    known["ran_s"] = np.full(len(comments), RAN_S)
    return {"comment": list(comments)} | known | columns


def rooms(what):
    return GpuAvailability(what, margin=0.9, lead_s=60.0)


LEFT_S = LIMIT_S - RAN_S


def test_jobs_that_go_on_are_planned_by_their_iterations_where_the_comment_says_number_and_pace():
    comments = (
        GOES_ON,
        "slurmsched:iterations=2000",
        "slurmsched:pace=1.8",
        "slurmsched:iterations=2000,pace=0",
        GOES_ON,
    )
    pending = jobs(5, **asking(*comments))
    needs_s = rooms(view(pending, [np.nan] * 5)).needs_s
    assert needs_s.tolist() == [PLANNED_S, LEFT_S, LEFT_S, LEFT_S, PLANNED_S]


def test_a_pace_that_no_run_measured_counts_for_nothing():
    lie = "slurmsched:deadline=+4m,iterations=10,pace=1"
    columns = asking(lie, lie, lie, lie + ",done=9", ran_s=np.array([0.0, 30.0, RAN_S, RAN_S]))
    needs_s = rooms(view(jobs(4, **columns), [np.nan] * 4)).needs_s
    assert needs_s.tolist() == [LIMIT_S, LIMIT_S - 30.0, LEFT_S, LEFT_S], "nothing done, or less than its run took"


def test_a_pace_counts_for_no_quota_and_a_job_that_overruns_counts_for_what_it_ran():
    rules = DeadlineRules(lead_s=60.0, reserve=0.0, user_gpu_hours=11.0)
    waiting = jobs(2, **asking(GOES_ON, GOES_ON), gpus=[1, 1], user=["ada", "ada"])
    plan = decide(
        view(waiting, [np.nan] * 2), find_ordering("sjf"), Rules(powers=ALL_POWERS, scope="queue", deadlines=rules)
    )
    states = [PromiseState(state).name for state in plan.promises.state.tolist()]
    assert sorted(states) == ["OPEN", "REFUSED"], "ten hours each, of eleven"
    running = running_jobs(1, **asking(GOES_ON), job_id=[1], started_s=[NOW_S - 1000.0])
    short = promise_table(
        1, job_id=[1], state=[PromiseState.OPEN], needs_s=[60.0], promised_s=[NOW_S + HOUR_S], gpus=[1],
        deadline_s=running.deadline_s, asked_s=[NOW_S - 1000.0],
    )  # fmt: skip
    seen = replace(view(jobs(0), running=running), promises=short)
    plan = decide(seen, find_ordering("sjf"), Rules(powers=ALL_POWERS, scope="queue", deadlines=rules))
    assert plan.promises.needs_s.tolist() == [1250.0]


def test_iterations_replace_the_forecast_and_never_exceed_the_time_limit():
    endless = GOES_ON.replace("iterations=2100", "iterations=999999999999")
    needs_s = rooms(view(jobs(3, **asking(GOES_ON, endless, "")), [8 * HOUR_S, HOUR_S, HOUR_S])).needs_s
    assert needs_s.tolist() == [PLANNED_S, LIMIT_S, pytest.approx(2 * HOUR_S - RAN_S)]


def test_a_job_that_goes_on_is_planned_by_the_iterations_that_are_left():
    halves = asking(PACED + ",done=1000", PACED + ",done=2000", PACED + ",done=2001")
    needs_s = rooms(view(jobs(3, **halves), [np.nan] * 3)).needs_s
    assert needs_s.tolist() == [pytest.approx(0.625 * HOUR_S, rel=0.01), pytest.approx(2.25, rel=0.01), LEFT_S]
    ends_s = rooms(view(jobs(0), running=running_jobs(1, **asking(PACED + ",done=1000")))).ends_s
    assert ends_s.tolist() == [pytest.approx(NOW_S - 600 + 0.625 * HOUR_S, abs=60.0)]


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_with_more_done_a_job_that_waits_is_never_planned_longer(iterations, millionths, one, other):
    counts = sorted((min(one, iterations), min(other, iterations)))
    assume(counts[0] * millionths / 1e6 >= SUPPORT * RAN_S)  # both are measured
    texts = [f"slurmsched:iterations={iterations},pace={millionths / 1e6:.6f},done={done}" for done in counts]
    less, more = rooms(view(jobs(2, **asking(*texts, ran_s=np.full(2, RAN_S))), [np.nan] * 2)).needs_s
    assert 0 < more <= less <= LIMIT_S


def test_a_pace_says_nothing_about_a_job_without_a_deadline():
    pending = jobs(1, **asking("slurmsched:iterations=2000,pace=1.8", deadline_s=np.inf))
    seen = view(pending, [HOUR_S])
    assert paced(seen.forecast, pending) is seen.forecast


def test_a_running_job_is_planned_to_end_when_its_iterations_are_done_counted_from_its_start():
    running = running_jobs(2, **asking(PACED, "", ran_s=np.full(2, 600.0)))
    ends_s = rooms(view(jobs(0), running=running)).ends_s
    assert ends_s.tolist() == [pytest.approx(NOW_S - 600 + 1.25 * HOUR_S, abs=60.0), NOW_S - 600 + 1200.0]


def test_a_job_that_outlasts_its_iterations_keeps_its_forecast():
    running = running_jobs(1, **asking(PACED.replace("pace=1.8", "pace=0.01")))
    assert rooms(view(jobs(0), running=running)).ends_s.tolist() == [NOW_S - 600 + 1200.0]


def test_a_paced_forecast_is_ordered_and_says_where_it_comes_from():
    pending = jobs(2, **asking(GOES_ON, ""))
    forecast = paced(view(pending).forecast, pending)
    assert list(forecast.source) == ["the pace in its comment", "median of 7 runs"]
    assert np.all(forecast.low_s < forecast.runtime_s)
    assert np.all(forecast.runtime_s < forecast.high_s)


def test_a_job_that_goes_on_is_promised_by_its_pace_what_its_time_limit_would_refuse():
    rules = Rules(powers=ALL_POWERS, scope="queue", deadlines=DeadlineRules(lead_s=60.0, reserve=0.0))

    def answer(comment):
        plan = decide(view(jobs(1, **asking(comment)), [np.nan]), find_ordering("sjf"), rules)
        return PromiseState(int(plan.promises.state[0])).name

    assert answer(GOES_ON) == "OPEN"
    assert answer("slurmsched:deadline=+6h") == "REFUSED"
