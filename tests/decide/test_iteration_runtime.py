"""Jobs whose script says how long an iteration takes are planned by it."""

from __future__ import annotations

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.records.promises import PromiseState
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.deadlines.iteration_runtime import paced
from slurmsched.decide.engine import decide
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.policies.contract import find_ordering

HOUR_S = 3600.0
LIMIT_S = 10 * HOUR_S
PACED = "slurmsched:deadline=+6h,iterations=2000,pace=1.8"  # an hour
PLANNED_S = pytest.approx(1.25 * HOUR_S, rel=0.01)  # its upper decile


def asking(*comments, deadline_s=NOW_S + 2 * HOUR_S, **columns):
    known = {"time_limit_s": np.full(len(comments), LIMIT_S), "deadline_s": np.full(len(comments), deadline_s)}
    return {"comment": list(comments)} | known | columns


def rooms(what):
    return GpuAvailability(what, margin=0.9, lead_s=60.0)


def test_waiting_jobs_are_planned_by_their_iterations_where_the_comment_says_number_and_pace():
    comments = (PACED, "slurmsched:iterations=2000", "slurmsched:pace=1.8", "slurmsched:iterations=2000,pace=0", PACED)
    pending = jobs(5, **asking(*comments))
    needs_s = rooms(view(pending, [np.nan] * 5)).needs_s
    assert needs_s.tolist() == [PLANNED_S, LIMIT_S, LIMIT_S, LIMIT_S, PLANNED_S]


def test_iterations_replace_the_forecast_and_never_exceed_the_time_limit():
    endless = PACED.replace("iterations=2000", "iterations=999999999999")
    needs_s = rooms(view(jobs(3, **asking(PACED, endless, "")), [8 * HOUR_S, HOUR_S, HOUR_S])).needs_s
    assert needs_s.tolist() == [PLANNED_S, LIMIT_S, pytest.approx(2 * HOUR_S)]


def test_a_job_that_goes_on_is_planned_by_the_iterations_that_are_left():
    halves = asking(PACED + ",done=1000", PACED + ",done=2000", PACED + ",done=2001")
    needs_s = rooms(view(jobs(3, **halves), [np.nan] * 3)).needs_s
    assert needs_s.tolist() == [pytest.approx(0.625 * HOUR_S, rel=0.01), pytest.approx(2.25, rel=0.01), PLANNED_S]
    ends_s = rooms(view(jobs(0), running=running_jobs(1, **asking(PACED + ",done=1000")))).ends_s
    assert ends_s.tolist() == [pytest.approx(NOW_S - 600 + 0.625 * HOUR_S, abs=60.0)]


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_with_more_done_a_job_that_waits_is_never_planned_longer(iterations, millionths, one, other):
    counts = sorted((min(one, iterations), min(other, iterations)))
    texts = [f"slurmsched:iterations={iterations},pace={millionths / 1e6:.6f},done={done}" for done in counts]
    less, more = rooms(view(jobs(2, **asking(*texts)), [np.nan] * 2)).needs_s
    assert 0 < more <= less <= LIMIT_S


def test_a_pace_says_nothing_about_a_job_without_a_deadline():
    pending = jobs(1, **asking("slurmsched:iterations=2000,pace=1.8", deadline_s=np.inf))
    seen = view(pending, [HOUR_S])
    assert paced(seen.forecast, pending) is seen.forecast


def test_a_running_job_is_planned_to_end_when_its_iterations_are_done_counted_from_its_start():
    running = running_jobs(2, **asking(PACED, ""))
    ends_s = rooms(view(jobs(0), running=running)).ends_s
    assert ends_s.tolist() == [pytest.approx(NOW_S - 600 + 1.25 * HOUR_S, abs=60.0), NOW_S - 600 + 1200.0]


def test_a_job_that_outlasts_its_iterations_keeps_its_forecast():
    running = running_jobs(1, **asking(PACED.replace("pace=1.8", "pace=0.01")))
    assert rooms(view(jobs(0), running=running)).ends_s.tolist() == [NOW_S - 600 + 1200.0]


def test_a_paced_forecast_is_ordered_and_says_where_it_comes_from():
    pending = jobs(2, **asking(PACED, ""))
    forecast = paced(view(pending).forecast, pending)
    assert list(forecast.source) == ["the pace in its comment", "median of 7 runs"]
    assert np.all(forecast.low_s < forecast.runtime_s)
    assert np.all(forecast.runtime_s < forecast.high_s)


def test_a_job_without_a_history_is_promised_by_its_pace_what_its_time_limit_would_refuse():
    rules = Rules(powers=ALL_POWERS, scope="queue", deadlines=DeadlineRules(lead_s=60.0, reserve=0.0))

    def answer(comment):
        plan = decide(view(jobs(1, **asking(comment)), [np.nan]), find_ordering("sjf"), rules)
        return PromiseState(int(plan.promises.state[0])).name

    assert answer(PACED) == "OPEN"
    assert answer("slurmsched:deadline=+6h") == "REFUSED"
