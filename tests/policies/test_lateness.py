"""Doubt: how likely a promise is to be broken, and when its owner is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.policies.deadlines.lateness import chance_late, in_doubt

HOUR_S = 3600.0


def chance(median_h=1.0, high_h=1.5, ran_h=0.0, ahead_h=1.0):
    columns = (np.array([one * HOUR_S]) for one in (median_h, high_h, ran_h, ahead_h))
    return float(chance_late(*columns)[0])


def told(late, ahead_s, window_s=10 * HOUR_S):
    return bool(in_doubt(np.array([late]), np.array([ahead_s]), np.array([window_s]), 300.0)[0])


def test_half_of_the_jobs_outlast_the_median_and_one_in_ten_the_upper_decile():
    assert chance(ahead_h=1.0) == pytest.approx(0.5)
    assert chance(ahead_h=1.5) == pytest.approx(0.1)


def test_the_longer_a_job_has_run_the_less_likely_it_still_ends_by_the_upper_decile():
    chances = [chance(ran_h=ran_h, ahead_h=1.5 - ran_h) for ran_h in (0.0, 0.8, 1.2, 1.4)]
    assert chances == sorted(chances)
    assert chances[-1] > 0.6


def test_far_beyond_its_forecast_a_job_takes_in_proportion_to_what_it_took():
    assert chance(ran_h=10.0, ahead_h=5.0) == pytest.approx(chance(ran_h=100.0, ahead_h=50.0), rel=1e-3)


def test_a_certain_forecast_leaves_no_doubt():
    assert chance(high_h=1.0, ran_h=0.25, ahead_h=0.75) == 0.0
    assert chance(high_h=1.0, ran_h=0.25, ahead_h=0.74) == 1.0


def test_without_a_forecast_nothing_is_doubted_and_past_the_deadline_all_is():
    assert chance(median_h=np.nan, high_h=np.nan) == 0.0
    assert chance(ahead_h=-0.1) == 1.0


@given(st.floats(0.01, 100), st.floats(1.0, 10), st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 10))
def test_a_chance_lies_within_0_and_1_and_more_time_never_makes_it_worse(median_h, wide, ran_h, ahead_h, more_h):
    soon = chance(median_h, median_h * wide, ran_h, ahead_h)
    late = chance(median_h, median_h * wide, ran_h, ahead_h + more_h)
    assert 0.0 <= late <= soon + 1e-12 <= 1.0 + 1e-12


def test_an_owner_is_told_at_once_of_what_will_probably_be_broken():
    assert told(0.6, 8 * HOUR_S)
    assert not told(0.3, 8 * HOUR_S)


def test_of_what_may_be_broken_an_owner_is_told_while_the_notice_is_left():
    assert told(0.3, 1.05 * HOUR_S)
    assert not told(0.3, 1.2 * HOUR_S)
    assert not told(0.01, 1.0 * HOUR_S)


def test_in_a_short_window_the_notice_is_ten_minutes():
    assert told(0.3, 600.0 + 299.0, window_s=HOUR_S)
    assert not told(0.3, 600.0 + 301.0, window_s=HOUR_S)
