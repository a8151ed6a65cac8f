"""What is being submitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, view
from models.outcome_worlds import history as ended_runs

from slurmsched.models.arrival_counter import ArrivalCounter

STEP_S, DAY = 600.0, 144
NOTHING = ended_runs([])


def steady(steps, per_step, until_s=NOW_S):
    """The submissions of *per_step* jobs of one GPU in each of the *steps* before *until_s*."""
    submitted_s = np.repeat(until_s - STEP_S * np.arange(steps, 0, -1), per_step)
    return submitted_s, np.ones(len(submitted_s), dtype=np.int64)


def burst(count, now_s=NOW_S, **known):
    """*count* new jobs of two GPUs that wait."""
    waiting = jobs(count, gpus=np.full(count, 2), first_submit_s=np.full(count, NOW_S - 30), **known)
    return replace(view(waiting), now_s=now_s)


def counter(steps, per_step, until_s=NOW_S):
    made = ArrivalCounter()
    made.learn(*steady(steps, per_step, until_s))
    return made


def test_each_job_counts_once_however_often_it_is_seen_and_however_often_it_runs():
    arriving = counter(DAY, 2, until_s=NOW_S - STEP_S)
    for later_s in (0.0, 15.0, STEP_S):
        arriving.observe(burst(12, NOW_S + later_s), NOTHING)
    again = ended_runs([5.0, 5.0], job_id=[1, 1], restart=[0, 1], first_submit_s=[NOW_S - 30] * 2)
    arriving.observe(burst(0, NOW_S + STEP_S), again)
    outlooks = arriving.outlooks(NOW_S + STEP_S)
    assert outlooks["jobs"].now == pytest.approx((4 * 2 + 12) / 6), (
        "the last hour: a step without any, and the new ones"
    )
    assert outlooks["gpus"].now == pytest.approx((4 * 2 + 24) / 6)


def test_a_job_that_ended_between_two_looks_counts():
    arriving = counter(DAY, 2)
    arriving.observe(burst(0), NOTHING)
    short = ended_runs([5.0, 5.0], restart=[0, 1], first_submit_s=[NOW_S + 10] * 2)
    arriving.observe(burst(0, NOW_S + 30), short)
    assert arriving.outlooks(NOW_S + STEP_S)["jobs"].now == pytest.approx((5 * 2 + 1) / 6)


def test_pending_tasks_of_an_array_are_so_many_jobs():
    arriving = counter(DAY, 2, until_s=NOW_S - STEP_S)
    arriving.observe(burst(1, tasks=[9]), NOTHING)
    assert arriving.outlooks(NOW_S + STEP_S)["jobs"].now == pytest.approx((4 * 2 + 9) / 6)


def test_nothing_is_said_before_a_day_is_known():
    assert counter(DAY - 10, 2).outlooks(NOW_S) == {}
