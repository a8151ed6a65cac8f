"""Runtimes drawn from forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.outlook.remaining import UNKNOWN_S
from slurmsched.foresee.drawn_runtimes import certain, drawn

MANY = 4000


def forecast(low_s: float, runtime_s: float, high_s: float, many: int = MANY) -> Forecast:
    low, middle, high = (np.full(many, value) for value in (low_s, runtime_s, high_s))
    return Forecast(middle, low, high, Labels.of(["said"] * many))


def seen(limit_s: float = np.inf):
    waiting = jobs(MANY, time_limit_s=np.full(MANY, limit_s))
    running = jobs(MANY, state=[JobState.RUNNING] * MANY, time_limit_s=np.full(MANY, limit_s))
    base = view(waiting, [1.0] * MANY)
    running = replace(running, started_s=np.full(MANY, base.now_s - 1000.0))
    told = forecast(100.0, 300.0, 2700.0)
    return replace(base, running=running, forecast=told, forecast_running=forecast(1100.0, 1300.0, 3700.0))


def test_a_tenth_falls_below_each_end_of_the_interval_and_half_below_the_median():
    waiting_s, running_s = drawn(seen(), np.random.default_rng(1))
    for runtime_s, ran_s in ((waiting_s, 0.0), (running_s, 1000.0)):
        shares = [np.mean(runtime_s - ran_s < bound_s) for bound_s in (100.0, 300.0, 2700.0)]
        assert shares == pytest.approx([0.1, 0.5, 0.9], abs=0.02)


def test_nothing_outlasts_its_limit_and_what_runs_goes_on():
    waiting_s, running_s = drawn(seen(limit_s=1500.0), np.random.default_rng(1))
    assert waiting_s.max() == running_s.max() == 1500.0
    assert running_s.min() > 1000.0
    _, late_s = drawn(seen(limit_s=900.0), np.random.default_rng(1))
    assert late_s.min() > 1000.0


def test_without_an_interval_and_without_a_forecast_there_is_nothing_to_draw():
    known, unknown = forecast(60.0, 60.0, 60.0), forecast(np.nan, np.nan, np.nan)
    sure = replace(seen(), forecast=known, forecast_running=unknown)
    assert certain(sure)
    assert not certain(seen())
    waiting_s, running_s = drawn(sure, np.random.default_rng(1))
    assert np.all(waiting_s == 60.0)
    assert np.all(running_s == UNKNOWN_S)
