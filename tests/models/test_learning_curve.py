"""Learning curves: what the reports of a job say about the use of more training."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.models.progress.curve_families import predicted_value
from slurmsched.models.progress.learning_curve import LEAST_POINTS, POINTS_MOST, LearningCurve


def curve_of(losses, every=1):
    curve = LearningCurve()
    for at, loss in enumerate(losses):
        curve.add(at * every, loss, math.nan)
    return curve


def test_a_loss_that_falls_all_the_time_has_a_fall_and_a_settled_one_has_none():
    falling = curve_of([1.0 - 0.01 * at for at in range(40)])
    assert falling.loss_fall == pytest.approx(0.10 / 0.71)
    settled = curve_of([1.0 / (1 + at) for at in range(10)] + [0.1] * 50)
    assert settled.loss_fall == 0
    assert math.isnan(curve_of([0.5] * (LEAST_POINTS - 1)).loss_fall)


def test_noise_about_a_settled_loss_is_no_fall_beyond_the_noise():
    random = np.random.default_rng(0)
    assert curve_of((0.5 + 0.001 * random.random(200)).tolist()).loss_fall <= 0.002


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=900))
def test_a_curve_of_any_losses_is_short_and_knows_its_fall(losses):
    curve = curve_of(losses)
    points = curve._losses
    assert len(points) == len(points.iterations) <= POINTS_MOST
    assert points.lowest == [min(losses[: at + 1]) for at in points.iterations]
    assert points.iterations == sorted(set(points.iterations))
    assert math.isnan(curve.loss_fall) == (len(losses) < LEAST_POINTS)
    assert not curve.loss_fall < 0


def test_a_run_that_goes_on_from_earlier_work_drops_what_was_lost():
    curve = curve_of([1.0] * 20 + [0.1] * 20)
    curve.return_to(19)
    assert curve.iteration == 19
    curve.add(20, 0.9, math.nan)
    assert curve.loss_fall == pytest.approx(0.1)


def accuracies(values, every=1, end=0):
    """Whether the curve had settled after each of *values*."""
    curve, settled = LearningCurve(), []
    for at, value in enumerate(values):
        curve.add(at * every, math.nan, value)
        settled.append(curve.settles(end))
    return settled


def test_an_accuracy_that_rises_never_settles_and_one_that_stays_does_after_a_quarter_to_half_of_the_iterations():
    assert not any(accuracies(np.linspace(0.1, 0.9, 150)))
    first = accuracies([*np.linspace(0.1, 0.5, 90), *np.full(120, 0.5)]).index(True)
    assert 90 * 4 / 3 <= first <= 90 * 2 + 5
    first = accuracies(0.5 * (1 - np.exp(-np.arange(300) / 10))).index(True)
    assert 50 <= first <= 90


def test_nothing_settles_before_twenty_measurements_on_the_plateau():
    first = accuracies([0.1, 0.3, 0.5, *np.full(60, 0.5)]).index(True)
    assert first >= 2 + LEAST_POINTS


@pytest.mark.parametrize("repeats", [1, 30])
def test_an_accuracy_that_is_reported_again_until_the_next_measurement_is_no_plateau(repeats):
    rising = np.repeat(1 - np.exp(-np.arange(15) / 20), repeats)
    assert not any(accuracies(rising))
    assert not any(accuracies(np.full(500, 0.1)))


def test_a_slow_rise_that_will_pay_by_the_end_goes_on():
    slow = 0.2 + 0.0001 * np.arange(120)
    assert any(accuracies(slow, end=119))
    assert not any(accuracies(slow, end=2000))


def test_a_loss_alone_settles_and_an_accuracy_takes_its_place():
    losses = [*np.geomspace(2.0, 0.5, 40), *np.full(60, 0.5)]
    alone, beside = LearningCurve(), LearningCurve()
    for at, loss in enumerate(losses):
        alone.add(at, loss, math.nan)
        beside.add(at, loss, 0.005 * at)
    assert alone.settles(0)
    assert not beside.settles(0)


def test_a_run_that_goes_on_from_earlier_work_has_not_settled():
    curve = LearningCurve()
    for at in range(100):
        curve.add(at, math.nan, min(0.9, 0.03 * at))
    assert curve.settles(0)
    curve.return_to(40)
    curve.add(41, math.nan, 0.9)
    assert not curve.settles(0)


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1) | st.just(math.nan))))
def test_any_reports_have_an_answer(reports):
    curve = LearningCurve()
    for at, (loss, accuracy) in enumerate(reports):
        curve.add(at, loss, accuracy)
        assert curve.settles(0) in (True, False)


@pytest.mark.parametrize(
    "curve",
    [
        lambda x: 0.9 - 0.8 * x**-0.7,
        lambda x: 0.9 - 0.8 * np.exp(-((0.02 * x) ** 0.8)),
        lambda x: 0.9 - 0.8 / (1 + 0.05 * x),
    ],
    ids=["power", "weibull", "hill"],
)
def test_curves_of_a_family_are_extrapolated_closely(curve):
    x = np.arange(1.0, 101.0)
    assert predicted_value(x, curve(x), 1000.0) == pytest.approx(curve(1000.0), abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.floats(1, 1e6))
def test_a_prediction_lies_between_the_last_value_and_one(values, ahead):
    best = np.maximum.accumulate(values)
    x = np.arange(1.0, len(best) + 1)
    assert best[-1] <= predicted_value(x, best, x[-1] * ahead) <= 1.0
