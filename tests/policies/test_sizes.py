"""The division of GPUs among jobs that have some, where more of them cost a restart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.resizing import divided_at_a_cost, sample_worth, step_seconds


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
    curves = [step_seconds({}, 8, draw(st.sampled_from([1.0, 1.3, 1.8, 2.0]))) for _ in range(count)]
    left, cost_s = each(st.floats(1.0, 1e5)), each(st.sampled_from([0.0, 60.0, 5000.0]))
    return np.stack(curves), left, least, most, cost_s, int(least.sum()) + draw(st.integers(0, 10))


@given(divisions())
@examples(300)
def test_each_job_has_what_it_had_or_more_within_its_range_and_what_it_pays_for_gains_more(division):
    step_s, left, least, most, cost_s, total = division
    gpus = divided_at_a_cost(step_s, left, least, most, cost_s, total)
    assert (least <= gpus).all()
    assert (gpus <= most).all()
    assert gpus.sum() <= total
    rows = np.arange(len(left))
    gain_s = (step_s[rows, least] - step_s[rows, gpus]) * left
    assert (gain_s[gpus > least] > cost_s[gpus > least]).all()
    if not cost_s.any() and (np.diff(step_s[:, 1:], axis=1) < 0).all():
        assert gpus.sum() == min(total, int(most.sum())), "none is left where every further one helps for nothing"
