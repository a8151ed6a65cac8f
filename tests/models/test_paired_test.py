from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.models.runtime.paired_test import STRETCHES, PairedTest


def test_who_is_better_about_every_user_is_surely_ahead():
    random = np.random.default_rng(0)
    lead = PairedTest.of(random.normal(0.1, 0.3, 800), np.arange(800) % 20)
    assert lead.sure
    assert lead.groups == 20 * STRETCHES


def test_who_is_better_about_one_burst_is_not():
    user = np.repeat(np.arange(20), 40)
    gain = np.where(user == 7, 5.0, -0.01)
    assert gain.mean() > 0.2
    assert not PairedTest.of(gain, user).sure


def test_a_burst_counts_as_one_run():
    random = np.random.default_rng(1)
    gain, user = random.normal(0.05, 1.0, 160), np.arange(160)
    one, burst = PairedTest.of(gain, user), PairedTest.of(np.repeat(gain, 50), np.repeat(user, 50))
    assert np.allclose(burst, one)


def test_equal_forecasts_are_never_ahead():
    assert not PairedTest.of(np.zeros(100), np.arange(100)).sure


def test_the_runs_of_one_group_say_nothing_of_the_next():
    lead = PairedTest.of(np.ones(1), np.zeros(1, np.int64))
    assert (lead.error, lead.sure) == (np.inf, False)
    assert not PairedTest.of(np.zeros(0), np.zeros(0, np.int64)).sure


def test_where_there_is_no_difference_few_are_ahead_by_chance():
    random = np.random.default_rng(2)
    ahead = [
        PairedTest.of(np.repeat(random.normal(0, 1, 60), 20), np.repeat(np.arange(60), 20)).sure for _ in range(400)
    ]
    assert np.mean(ahead) < 0.06


@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 5)), min_size=2, max_size=60))
def test_two_forecasts_are_never_both_ahead(runs: list[tuple[float, int]]):
    gain, user = np.array([gain for gain, _ in runs]), np.array([user for _, user in runs])
    assert not (PairedTest.of(gain, user).sure and PairedTest.of(-gain, user).sure)
