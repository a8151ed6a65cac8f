"""Weighted fair queueing of rigid jobs. What every ordering promises is tested elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, running_jobs, view

from slurmsched.policies.ordering.fair_queueing import reached
from slurmsched.policies.ordering.wfq import Wfq

EVEN = Wfq((100.0, math.inf), (0.5, 0.5), 0.0)
STEEP = Wfq((100.0, math.inf), (0.8, 0.2), 0.0)
OVERTAKING = Wfq((math.inf,), (1.0,), 0.0, overtake=1.0)


def order(runtimes_s: list[float], rules: Wfq = EVEN, **columns: object) -> list[int]:
    """Job ids 1, 2, ... as they would start, submitted a second after each other unless *columns* say otherwise."""
    count = len(runtimes_s)
    known = {"first_submit_s": NOW_S - 60 + np.arange(count)} | columns
    seen = view(jobs(count, **known), runtimes_s=runtimes_s)
    return (np.argsort(reached(seen, rules), kind="stable") + 1).tolist()


def test_inside_a_class_who_came_first_is_first():
    assert order([90, 10, 50]) == [1, 2, 3]
    assert order([90, 10, 50], first_submit_s=[3.0, 2.0, 1.0]) == [3, 2, 1]


def test_classes_of_equal_weight_take_turns():
    assert order([500, 500, 500, 50, 50, 50]) == [1, 4, 2, 5, 3, 6]


def test_a_class_of_four_times_the_weight_gets_four_gpus_to_one():
    assert order([500, 500, *[50] * 8], STEEP)[:6] == [3, 4, 5, 1, 6, 7]


def test_wide_jobs_use_up_the_share_of_their_class():
    assert order([20, 20, 500, 500], gpus=[4, 4, 1, 1]) == [3, 4, 1, 2]


def test_a_job_without_a_forecast_has_no_number():
    seen = view(jobs(2), runtimes_s=[math.nan, 50.0])
    assert np.isnan(reached(seen, EVEN)).tolist() == [True, False]


def test_a_job_whose_forecast_grows_past_a_threshold_stands_in_the_next_class():
    before, after = (reached(view(jobs(2), runtimes_s=[50.0, told]), EVEN) for told in (60.0, 600.0))
    assert before.tolist() == pytest.approx([2.0, 4.0])
    assert after.tolist() == pytest.approx([2.0, 2.0])


def test_what_runs_counts_for_its_class():
    seen = view(jobs(2), runtimes_s=[50.0, 500.0], running=running_jobs(1, gpus=[3]))
    assert reached(seen, EVEN).tolist() == pytest.approx([2.0, 8.0]), "600 s on 3 GPUs"


def test_inside_a_class_a_smaller_job_overtakes_as_many_seconds_as_its_size_is_worth():
    """The second came a second later and is 100 GPU-seconds smaller."""
    one = Wfq((math.inf,), (1.0,), 0.0)
    assert order([500.0, 400.0], replace(one, overtake=0.009)) == [1, 2]
    assert order([500.0, 400.0], replace(one, overtake=0.011)) == [2, 1]


def test_a_job_without_a_forecast_is_overtaken_and_has_no_number():
    key = reached(view(jobs(2, first_submit_s=NOW_S - 60 + np.arange(2)), [math.nan, 400.0]), OVERTAKING)
    assert math.isnan(key[0])
    assert key[1] == 1.0
