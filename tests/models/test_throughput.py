"""Throughput: the next hour from what is at least an hour old, and never worse than a rolling median."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.models.arrivals import (
    DAY,
    LAG,
    REACH,
    SERIES,
    STEP_S,
    WEEK,
    Arrivals,
    features,
    rolling_median,
    settled_s,
)
from slurmsched.models.ebm.additive import Boosting
from slurmsched.models.throughput import Errors, LoadOutlook, ThroughputModel

QUICK = Boosting(outer_bags=1, max_rounds=60, max_bins=16, max_interaction_bins=8, smoothing_rounds=10)
START_S = 1_600_000_200.0 // STEP_S * STEP_S


def arrivals(steps: int, seed: int = 0, *, daily: bool = True) -> Arrivals:
    """Poisson submissions, few at night and many by day unless they are the same at all times."""
    rng = np.random.default_rng(seed)
    start_s = START_S + STEP_S * np.arange(steps)
    rate = 6.0 + 5.0 * np.sin(2 * np.pi * np.arange(steps) / DAY) * daily
    jobs = rng.poisson(rate).astype(np.float64)
    return Arrivals(start_s, jobs, 2.0 * jobs)


@pytest.fixture(scope="module")
def history() -> Arrivals:
    return arrivals(6 * WEEK)


@pytest.fixture(scope="module")
def model(history: Arrivals) -> ThroughputModel:
    return ThroughputModel.fit(history, seed=1, boosting=QUICK)


def median_model() -> ThroughputModel:
    return ThroughputModel(dict.fromkeys(SERIES), dict.fromkeys(SERIES, Errors(np.inf, 1.0)))


def test_submissions_are_counted_by_whole_steps():
    submitted_s = START_S + np.array([10.0, 599.0, 600.0, 1900.0, 2500.0])
    counted = Arrivals.of(submitted_s, np.array([1, 2, 4, 8, 16]), START_S + 2999.0)
    assert counted.start_s.tolist() == [START_S + STEP_S * step for step in range(4)]
    assert counted.jobs.tolist() == [2.0, 1.0, 0.0, 1.0]
    assert counted.gpus.tolist() == [3.0, 4.0, 0.0, 8.0]
    assert len(Arrivals.of(np.zeros(0), np.zeros(0, dtype=np.int64), START_S)) == 0


def test_a_history_of_ended_jobs_is_trusted_until_few_of_those_submitted_may_still_run():
    submitted_s = START_S + 600.0 * np.arange(1000)
    took_s = np.where(np.arange(1000) % 25 == 0, 200_000.0, 3600.0)  # one in 25 takes days
    now_s = submitted_s[-1]
    ended = submitted_s + took_s <= now_s
    until_s = settled_s(submitted_s[ended], (submitted_s + took_s)[ended])
    assert now_s - 7200.0 < until_s <= now_s - 3600.0
    assert ended[submitted_s < until_s].mean() > 0.95
    assert not ended[submitted_s >= until_s].all()


def test_a_history_ends_with_its_last_submission_however_long_that_job_ran():
    submitted_s = START_S + 600.0 * np.arange(100)
    assert settled_s(submitted_s, submitted_s + 1e6) == pytest.approx(submitted_s[-1], abs=1.0)
    assert settled_s(np.zeros(0), np.zeros(0)) == 0.0


@examples(25)
@given(step=st.integers(REACH, REACH + 90), age=st.integers(0, LAG - 1))
def test_no_feature_is_younger_than_six_steps(step, age):
    quiet = arrivals(REACH + 90 + LAG)
    burst = quiet.jobs.copy()
    burst[step - age :] += 1_000.0
    before, after = features(quiet), features(replace(quiet, jobs=burst))
    assert all(np.array_equal(before[name][step], after[name][step], equal_nan=True) for name in before)


def test_the_feature_of_six_steps_ago_is_used():
    quiet = arrivals(WEEK + 200)
    burst = quiet.jobs.copy()
    burst[-1 - LAG] += 1_000.0
    assert features(replace(quiet, jobs=burst))["jobs last"][-1] == features(quiet)["jobs last"][-1] + 1_000.0


def test_serving_from_the_newest_steps_sees_what_training_saw():
    whole = arrivals(WEEK + 600)
    tail = features(whole.latest(REACH), ahead=LAG)
    for name, column in features(whole, ahead=LAG).items():
        np.testing.assert_array_equal(tail[name][-LAG:], column[-LAG:], err_msg=name)
    later = features(arrivals(WEEK + 600 + LAG))
    for name, column in tail.items():
        if name in ("hour", "weekday"):
            np.testing.assert_array_equal(column[-LAG:], later[name][-LAG:])


def test_a_step_knows_its_hour_and_weekday():
    monday_noon_s = 1_577_966_400.0 + 4 * 86_400.0  # 2020-01-06 12:00 UTC
    steps = Arrivals(np.array([monday_noon_s]), np.ones(1), np.ones(1))
    columns = features(steps, ahead=LAG)
    assert columns["hour"][0] == 12.0
    assert columns["hour"][3] == 12.5
    assert columns["weekday"].tolist() == [0.0] * 7
    with pytest.raises(ValueError, match="reach 6 steps ahead, not 7"):
        features(steps, ahead=LAG + 1)


def test_what_repeats_every_day_is_learnt(model, history):
    assert all(model.models.values())
    ahead = arrivals(6 * WEEK + DAY, seed=9)
    newest = slice(6 * WEEK, None)
    for series in SERIES:
        truth = getattr(ahead, series)[newest]
        ours = np.abs(model.predict(ahead, series)[newest] - truth).mean()
        assert ours < 0.95 * np.abs(rolling_median(ahead, series)[newest] - truth).mean()
        assert model.errors[series].model < model.errors[series].median


def test_a_level_that_training_never_saw_is_left_to_the_median():
    steps = 5 * WEEK
    level = np.where(np.arange(steps) < steps * 4 // 5, 4.0, 400.0)
    jobs = np.random.default_rng(3).poisson(level).astype(np.float64)
    told = ThroughputModel.fit(Arrivals(START_S + STEP_S * np.arange(steps), jobs, jobs), seed=1, boosting=QUICK)
    assert told.models == {"jobs": None, "gpus": None}
    assert all(told.errors[series].median < told.errors[series].model < np.inf for series in SERIES)


def test_a_short_history_is_forecast_by_the_median():
    short = arrivals(WEEK)
    told = ThroughputModel.fit(short, seed=1, boosting=QUICK)
    assert told.models == {"jobs": None, "gpus": None}
    assert told.errors["jobs"].model == np.inf
    ahead = told.forecast(short)
    assert ahead.jobs[-1] == np.median(short.jobs[-12:])
    assert ahead.jobs[0] == np.median(short.jobs[-17:-5])


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_next_to_no_history_is_no_error(steps):
    ahead = median_model().forecast(arrivals(steps))
    assert len(ahead.jobs) == len(ahead.gpus) == LAG
    assert np.isfinite(ahead.jobs).all()
    assert np.isfinite(median_model().outlook(arrivals(steps), "jobs").rank)


def test_the_forecast_is_of_the_six_steps_to_come(model, history):
    ahead = model.forecast(history)
    assert ahead.start_s.tolist() == [history.start_s[-1] + STEP_S * step for step in range(1, LAG + 1)]
    assert (ahead.gpus >= 0.0).all()
    told = model.predict(arrivals(6 * WEEK), "gpus", ahead=LAG)
    np.testing.assert_allclose(ahead.gpus, told[-LAG:], atol=1e-9)


def test_the_outlook_says_idle_and_rising_at_dawn_busy_and_not_rising_past_noon(model):
    by_day = arrivals(7 * WEEK)  # the day begins on the rising side, at the mean
    midnight, noon = 6 * WEEK + 3 * DAY // 4, 6 * WEEK + DAY // 4
    dawn = model.outlook(by_day.take(slice(0, midnight + 12)), "jobs")
    top = model.outlook(by_day.take(slice(0, noon + 12)), "jobs")
    assert dawn.idle()
    assert dawn.rising()
    assert not dawn.busy()
    assert top.busy()
    assert not top.rising()


def test_the_bounds_of_an_outlook_can_be_chosen():
    outlook = LoadOutlook(now=4.0, ahead=4.6, rank=0.3)
    assert not outlook.idle()
    assert outlook.idle(below=0.4)
    assert outlook.rising()
    assert not outlook.rising(by=0.2)


def test_a_model_survives_json_without_loss(model, history):
    for told in (model, median_model()):
        back = ThroughputModel.of_document(json.loads(json.dumps(told.document(), allow_nan=False)))
        assert back.errors == told.errors
        for series in SERIES:
            np.testing.assert_array_equal(back.predict(history, series), told.predict(history, series))


def test_the_same_history_and_seed_give_the_same_model(model, history):
    assert ThroughputModel.fit(history, seed=1, boosting=QUICK).document() == model.document()
