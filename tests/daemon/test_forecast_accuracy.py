from __future__ import annotations

import math

import pytest
from daemon_worlds import ended, view

from slurmsched.daemon.forecast_accuracy import WINDOW, ForecastTracker


def test_a_job_is_judged_by_what_was_said_before_it_started():
    accuracy = ForecastTracker()
    accuracy.observe(view(pending={7: "alice"}, running={}, runtime_s=100.0))
    accuracy.observe(view(pending={}, running={7: "alice"}, runtime_s=999.0))
    assert accuracy.judge(ended(j7=200.0)) == [0.5]
    assert accuracy.coverage == 1.0


def test_a_job_that_came_and_went_between_two_looks_is_judged_too():
    accuracy = ForecastTracker()
    accuracy.observe(view(pending={7: "alice"}, runtime_s=100.0))
    assert accuracy.judge(ended(j7=10.0)) == [9.0]
    assert accuracy.coverage == 0.0


def test_a_job_never_seen_pending_is_judged_by_the_first_look_at_it():
    accuracy = ForecastTracker()
    accuracy.observe(view(running={5: "carol"}, runtime_s=100.0))
    accuracy.observe(view(running={5: "carol"}, runtime_s=500.0))
    assert accuracy.judge(ended(j5=100.0)) == [0.0]


def test_a_job_without_a_forecast_or_a_run_is_not_judged():
    accuracy = ForecastTracker()
    accuracy.observe(view())
    assert accuracy.judge(ended(j5=100.0, j99=3.0)) == []
    accuracy.observe(view(runtime_s=10.0))
    assert accuracy.judge(ended(j5=0.0)) == []
    assert math.isnan(accuracy.coverage)


def test_jobs_that_are_gone_are_forgotten():
    accuracy = ForecastTracker()
    accuracy.observe(view(running={5: "carol"}, runtime_s=100.0))
    for _ in range(2):
        accuracy.observe(view(running={}, pending={}, runtime_s=100.0))
    assert accuracy.judge(ended(j5=100.0)) == []


def test_the_coverage_speaks_of_the_last_runs_only():
    accuracy = ForecastTracker()
    accuracy.observe(view(running={5: "carol"}, runtime_s=100.0))
    for _ in range(WINDOW):
        accuracy.judge(ended(j5=1.0))
    for _ in range(WINDOW // 4):
        accuracy.judge(ended(j5=100.0))
    assert accuracy.coverage == pytest.approx(0.25)
