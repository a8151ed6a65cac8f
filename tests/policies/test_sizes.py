"""The division of GPUs among jobs that have some, where more of them cost a restart."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.config.settings import DIVISIONS as SETTINGS
from slurmsched.errors import ConfigError
from slurmsched.policies.resizing import (
    SIZE_DIVISIONS,
    Entrants,
    divided_at_a_cost,
    find_size_division,
    sample_worth,
    step_seconds,
)
from slurmsched.policies.size_choice import restart_factor


def test_a_step_of_an_unknown_kind_takes_less_by_the_same_factor_with_each_doubling():
    seconds = step_seconds({}, 8, 1.8)
    assert seconds[0] == np.inf
    assert seconds[[1, 2, 4, 8]] == pytest.approx([1, 1 / 1.8, 1 / 1.8**2, 1 / 1.8**3])


def test_a_step_of_a_known_kind_takes_what_was_seen_and_between_and_beyond_a_power():
    seconds = step_seconds({2: 1.0, 8: 2.25}, 16, 1.8)
    assert seconds[[2, 8]] == pytest.approx([1.0, 1 / 2.25])
    assert seconds[4] == pytest.approx(1 / 1.5)
    assert seconds[[1, 16]] == pytest.approx([1.8, 1 / 2.25 / 1.8])


def test_a_sample_is_worth_less_in_a_larger_batch_by_the_noise_of_its_gradient():
    noise, first = 500.0, 256
    worth = sample_worth(noise, (first, 1024), 2, 16)
    samples = np.array([256, 256, 256, 384, 512, *[0] * 3, 1024, *[0] * 7, 1024])
    for gpus in (1, 2, 3, 4, 8, 16):
        assert worth[gpus] == pytest.approx((noise + first) / (noise + samples[gpus]))


@given(st.floats(0.0, 1e300, exclude_min=True), st.floats(1.0, 1e3), st.integers(1, 9999), st.integers(1, 9999),
       st.integers(1, 16))  # fmt: skip
@examples(300)
def test_no_noise_makes_a_sample_worth_more_than_one_and_no_batch_further_a_job_less_than_its_own(
    noise, factor, first, more, own
):
    worth, noisier = (sample_worth(one, (first, first + more), own, 32) for one in (noise, noise * factor))
    samples = np.clip(np.arange(33) / own, 1.0, (first + more) / first)
    near = 1e-9
    assert (worth <= 1.0 + near).all()
    assert worth[: own + 1] == pytest.approx(1.0), "its own batch"
    assert (np.diff(worth) <= near).all()
    assert (np.diff(worth * samples) >= -near * samples[1:]).all(), "more samples further it more"
    assert (noisier >= worth - near).all()


@st.composite
def divisions(draw):
    count = draw(st.integers(1, 6))

    def each(values):
        return np.array(draw(st.lists(values, min_size=count, max_size=count)))

    least = each(st.integers(1, 3))
    most = least + each(st.integers(0, 5))
    curves = np.stack([step_seconds({}, 8, draw(st.sampled_from([1.0, 1.3, 1.8, 2.0]))) for _ in range(count)])
    fair_s = curves[np.arange(count), draw(st.integers(1, 8))]
    factor = each(st.sampled_from([1.0, 0.9, 1e-3]))
    jobs = Entrants(
        curves, each(st.floats(1.0, 1e5)), least, each(st.sampled_from([0.0, 60.0, 5000.0])), fair_s, factor
    )
    return jobs, most, int(least.sum()) + draw(st.integers(0, 10))


@pytest.mark.parametrize("division", SIZE_DIVISIONS.values(), ids=SIZE_DIVISIONS)
@given(divisions())
@examples(300)
def test_each_job_has_what_it_had_or_more_within_its_range_and_what_it_pays_for_gains_more(division, case):
    jobs, most, total = case
    gpus, least = divided_at_a_cost(division, jobs, most, total), jobs.least
    assert (least <= gpus).all()
    assert (gpus <= most).all()
    assert gpus.sum() <= total
    rows = np.arange(len(jobs.left))
    gain_s = (jobs.step_s[rows, least] - jobs.step_s[rows, gpus]) * jobs.left
    assert (gain_s[gpus > least] > jobs.cost_s[gpus > least]).all()
    free = not jobs.cost_s.any() and (jobs.factor == 1).all()
    if free and (np.diff(jobs.step_s[:, 1:], axis=1) < 0).all():
        assert gpus.sum() == min(total, int(most.sum())), "none is left where every further one helps for nothing"


def mean_costs(jobs, gpus, power):
    """The sum of the powers of speed-ups less what restarts cost, whose least is best."""
    rows = np.arange(len(gpus))
    speedup = jobs.fair_s / jobs.step_s[rows, gpus]
    return float((np.maximum(np.where(gpus > jobs.least, speedup * jobs.factor, speedup), 1e-3) ** power).sum())


@pytest.mark.parametrize(("name", "power"), [("pollux", -1.0), ("sia", -0.5)])
@given(divisions())
@examples(100)
def test_no_other_division_has_a_better_power_mean_and_more_gpus_never_make_it_worse(name, power, case):
    jobs, most, total = case
    jobs = replace(jobs, **{field.name: getattr(jobs, field.name)[:3] for field in fields(jobs)})
    most, total = most[:3], int(jobs.least.sum()) + min(total - int(jobs.least.sum()), 6)
    division = SIZE_DIVISIONS[name]
    best = mean_costs(jobs, division.divided(jobs, most, total), power)
    ranges = [range(least, limit + 1) for least, limit in zip(jobs.least, most, strict=True)]
    for gpus in product(*ranges):
        if sum(gpus) <= total:
            assert best <= mean_costs(jobs, np.array(gpus), power) + 1e-9
    assert mean_costs(jobs, division.divided(jobs, most, total + 1), power) <= best + 1e-9


def entrants(*curves, left=(1e4, 1e4), factor=(1.0, 1.0)):
    """Two jobs with one GPU each, and with the speed on any number that their curves have."""
    step_s = np.stack([step_seconds(curve, 8, 1.8) for curve in curves])
    ones = np.ones(2, dtype=np.int64)
    return Entrants(step_s, np.array(left), ones, np.zeros(2), step_s[:, 1], np.array(factor))


@pytest.mark.parametrize(("name", "expected"), [("optimus", [1, 7]), ("pollux", [4, 4]), ("sia", [4, 4])])
def test_means_of_speedups_give_like_jobs_as_much_however_much_they_have_to_do(name, expected):
    two = entrants({}, {}, left=(1e3, 1e5))
    assert divided_at_a_cost(SIZE_DIVISIONS[name], two, np.array([8, 8]), 8).tolist() == expected


def test_pollux_helps_a_job_that_more_gpus_hardly_help_before_sia_does():
    flat, steep = {1: 1.0, 8: 2.0}, {1: 1.0, 8: 7.0}
    shares = {
        name: SIZE_DIVISIONS[name].divided(entrants(flat, steep), np.array([8, 8]), 8) for name in ("pollux", "sia")
    }
    assert shares["pollux"][0] > shares["sia"][0]


@pytest.mark.parametrize("name", ["pollux", "sia"])
def test_a_job_that_spent_its_life_on_restarts_keeps_its_gpus(name):
    division, most = SIZE_DIVISIONS[name], np.array([8, 8])
    assert division.divided(entrants({}, {}, factor=(1.0, 0.2)), most, 8).tolist() == [7, 1]
    young = restart_factor(np.array([120.0, 86_400.0]), np.array([0, 3]), 120.0)
    assert young == pytest.approx([0.5, (86_400 - 360) / 86_520])


@pytest.mark.parametrize("division", SIZE_DIVISIONS.values(), ids=SIZE_DIVISIONS)
@given(divisions())
@examples(100)
def test_fewer_gpus_cost_a_job_something(division, case):
    jobs, *_ = case
    fewer = np.maximum(jobs.least - 1, 1)
    losses = division.losses(jobs, fewer)
    assert (losses[fewer == jobs.least] >= 0).all()
    assert (losses >= -1e-12).all()


def test_a_division_that_there_is_not_is_an_error():
    with pytest.raises(ConfigError, match="'drf' is not known; there are: optimus, pollux, sia"):
        find_size_division("drf")


def test_the_settings_accept_the_divisions_that_there_are():
    assert tuple(SIZE_DIVISIONS) == SETTINGS
