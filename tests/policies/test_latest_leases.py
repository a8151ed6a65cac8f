"""The latest plan: who must run now so that every promise is kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.deadlines.latest_leases import latest

JOBS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6), st.just(1)), min_size=1, max_size=6)


def asked(jobs):
    needs, spare, gpus = np.array(jobs).T
    return needs, needs + spare, gpus


def test_a_job_with_time_to_spare_need_not_run_now():
    assert latest(np.array([2]), np.array([3]), np.array([1]), 1).first.tolist() == [0]


def test_a_job_without_time_to_spare_must():
    assert latest(np.array([3]), np.array([3]), np.array([1]), 1).first.tolist() == [1]


def test_two_jobs_that_share_a_gpu_leave_no_tick_unused():
    plan = latest(np.array([2, 2]), np.array([4, 4]), np.array([1, 1]), 1)
    assert (plan.first.sum(), plan.late.sum()) == (1, 0)


def test_a_job_that_is_late_by_itself_takes_nothing_from_the_promises_of_others():
    plan = latest(np.array([9, 2]), np.array([2, 2]), np.array([1, 1]), 2)
    assert (plan.hopeless.tolist(), plan.late.tolist()) == ([7, 0], [0, 0])


def test_a_job_counts_in_its_own_rows_of_room_alone():
    needs, due, gpus = np.array([2, 2, 2]), np.array([2, 4, 4]), np.array([1, 1, 1])
    rows = np.array([[True, False], [True, False], [False, True]])
    plan = latest(needs, due, gpus, np.array([[1], [1]]), rows)
    assert (plan.first.tolist(), plan.late.tolist()) == ([1, 0, 0], [0, 0, 0])
    assert plan.used.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    assert latest(needs, due, gpus, np.array([[1], [0]]), rows).late.tolist() == [0, 0, 2], "its own row is full"


@examples(40)
@given(JOBS, st.lists(st.integers(0, 1), min_size=6, max_size=6), st.lists(st.integers(1, 3), min_size=2, max_size=2))
def test_rows_without_jobs_in_common_are_planned_as_if_alone(jobs, row_of, capacity):
    needs, due, gpus = asked(jobs)
    mine = np.array(row_of[: len(needs)])
    plan = latest(needs, due, gpus, np.array(capacity)[:, None], mine[:, None] == np.arange(2))
    for row in (0, 1):
        some = np.flatnonzero(mine == row)
        alone = latest(needs[some], due[some], gpus[some], capacity[row])
        if len(some) and due[some].max() == due.max():  # else the stretches differ
            assert (plan.first[some].tolist(), plan.late[some].tolist()) == (alone.first.tolist(), alone.late.tolist())


def test_nobody_is_promised_nothing():
    empty = np.zeros(0, np.int64)
    assert len(latest(empty, empty, empty, 8).first) == 0


@examples(80)
@given(JOBS, st.integers(1, 5))
def test_promises_to_jobs_on_one_gpu_are_kept_by_doing_at_each_tick_what_the_plan_says(jobs, capacity):
    needs, due, gpus = asked(jobs)
    if latest(needs, due, gpus, capacity).late.any():
        return
    for _ in range(int(due.max())):
        plan = latest(needs, due, gpus, capacity)
        assert not plan.late.any()
        assert not plan.hopeless.any()
        assert (plan.first * gpus).sum() <= capacity
        needs, due = needs - plan.first, due - 1
    assert not needs.any()
