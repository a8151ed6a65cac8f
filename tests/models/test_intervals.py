from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from slurmsched.models.runtime.intervals import SHARES, Misses, rolled
from slurmsched.models.runtime.model_inputs import CLASSES


def misses(values: np.ndarray, kinds: np.ndarray | None = None, runtime_s: float = 0.0) -> Misses:
    """One run a minute."""
    ended_s = 60.0 * np.arange(len(values))
    kinds = np.zeros(len(values), np.int64) if kinds is None else kinds
    return Misses(ended_s - runtime_s, ended_s, kinds, values, np.zeros(len(values)))


def covered(told: Misses, first: int) -> np.ndarray:
    """Of the low end and the 90 % bound."""
    return (told.miss <= rolled(told).log_factors[[0, 2]]).mean(axis=1, where=np.arange(len(told)) >= first)


def test_as_many_runs_stay_below_each_bound_as_promised():
    told = misses(np.random.default_rng(0).normal(0.3, 1.2, 6000))
    assert covered(told, 1000) == pytest.approx([SHARES[0], SHARES[2]], abs=0.03)


def test_it_holds_when_all_runs_become_longer():
    random = np.random.default_rng(1)
    drifting = misses(random.normal(0, 1, 6000) + np.linspace(0, 4, 6000))
    assert 0.85 <= covered(drifting, 1000)[1] <= 0.95


def test_each_class_has_bounds_of_its_own():
    random = np.random.default_rng(2)
    kinds = random.integers(0, 2, 6000)
    told = misses(random.normal(0, np.where(kinds == 0, 0.1, 2.0)), kinds)
    bounds = rolled(told).log_factors[2]
    for kind in (0, 1):
        rows = (kinds == kind) & (np.arange(6000) > 1000)
        assert (told.miss <= bounds)[rows].mean() == pytest.approx(0.9, abs=0.03)


def test_a_run_is_told_nothing_of_what_ended_after_its_submission():
    values = np.concatenate([np.zeros(1000), np.full(1000, 5.0)])
    seen_late = rolled(misses(values, runtime_s=60.0 * 1001)).log_factors[2, 1000:]
    assert seen_late.max() < 5


def test_jobs_that_wait_are_told_what_running_ones_are_at_their_start():
    interval = rolled(misses(np.random.default_rng(3).normal(0, 1, 3000), np.arange(3000) % 5)).interval
    kinds = np.arange(CLASSES)
    waiting = interval.factors(kinds, np.ones(CLASSES), np.zeros(CLASSES))
    starting = interval.factors(kinds, np.ones(CLASSES), np.full(CLASSES, 1e-12))
    assert waiting == pytest.approx(starting, rel=1e-6)


def test_without_misses_the_bounds_are_wide_and_the_coverage_unknown():
    interval = rolled(misses(np.zeros(0))).interval
    low, middle, high = interval.factors(np.arange(CLASSES), np.ones(CLASSES), np.zeros(CLASSES))
    assert np.isnan(interval.coverage)
    assert (low < middle).all()
    assert (middle < high).all()


def test_the_middle_of_a_job_that_waits_is_the_forecast_itself():
    told = misses(np.random.default_rng(6).normal(2.0, 1.0, 1500))
    assert (rolled(told).log_factors[1] == 0).all()


def test_an_interval_lies_round_its_base_and_holds_the_forecast():
    told = replace(misses(np.random.default_rng(7).normal(0, 1, 2000)), middle=np.tile([0.0, 0.5, 9.0, -9.0], 500))
    low, middle, high = rolled(told).log_factors
    assert middle == pytest.approx(told.middle)
    assert (high[3::4] < 3).all()
    assert high[2::4] == pytest.approx(9.0)
    assert low[3::4] == pytest.approx(-9.0)


def test_misses_read_again_are_the_same():
    told = misses(np.random.default_rng(8).normal(0, 1, 50))
    assert Misses.of_document(told.document()).equals(told)


def test_bounds_never_cross_and_never_lie_before_what_has_passed():
    told = misses(np.random.default_rng(3).normal(0, 1, 1500))
    interval = rolled(told).interval
    for survived, forecast in product((0.0, 0.5, 3.0, 1000.0), (0.001, 1.0, 1000.0)):
        low, middle, high = interval.factors(np.zeros(1, np.int64), np.array([forecast]), np.array([survived]))
        assert survived <= low[0] <= middle[0] <= high[0]


def test_the_measured_coverage_is_that_of_the_last_runs():
    interval = rolled(misses(np.random.default_rng(4).normal(0, 1, 5000))).interval
    assert interval.coverage == pytest.approx(0.9, abs=0.02)
