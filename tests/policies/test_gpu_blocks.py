"""Which GPUs: whole blocks for promised jobs, a search for small ones, and never more than exist."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurmsched.policies.deadlines.gpu_blocks import capacity_rows, packed, rounded_up
from slurmsched.policies.deadlines.local_search import placed, potential, quasi_consolidated, spreads

FREE = st.lists(st.integers(0, 8), min_size=1, max_size=6).map(np.array)
FRIENDLY = st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=8).map(np.array)


def rows_hold(gpus, free, node_gpus):
    """Whether every row of capacity has room for the jobs that count in it."""
    rows = capacity_rows(free, node_gpus)
    return all(gpus[gpus % (1 << level) == 0].sum() <= row for level, row in enumerate(rows))


def test_gpus_are_rounded_up_to_powers_of_two_and_whole_nodes():
    assert rounded_up(np.array([1, 3, 5, 8, 9, 16]), 8).tolist() == [1, 4, 8, 8, 16, 16]
    assert rounded_up(np.array([3, 5, 6, 7]), 6).tolist() == [4, 6, 6, 12]


def test_a_node_of_seven_free_gpus_has_blocks_of_four_two_and_one():
    assert capacity_rows(np.array([7]), 8).tolist() == [7, 6, 4, 0]


def test_three_jobs_of_four_do_not_fit_on_two_nodes_of_six():
    jobs, free = np.array([4, 4, 4]), np.array([6, 6])
    assert not rows_hold(jobs, free, 6)
    assert packed(jobs, free, 6) is None


@settings(max_examples=80, deadline=None)
@given(FRIENDLY, FREE)
def test_what_the_rows_have_room_for_is_packed_on_as_few_nodes_as_can_be(gpus, free):
    assume(rows_hold(gpus, free, 8))
    taken = packed(gpus, free, 8)
    assert taken is not None
    assert np.all(taken.sum(axis=0) <= free)
    assert np.all(taken.sum(axis=1) == gpus)
    assert np.all(np.count_nonzero(taken, axis=1) == -(-gpus // 8))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5).map(np.array), FREE, st.floats(0.3, 1.0))
def test_a_search_never_takes_more_than_is_free_and_gives_each_job_all_or_nothing(gpus, free, speed):
    speeds = np.stack([np.ones(len(gpus)), np.full(len(gpus), speed)], axis=1)
    taken = placed(gpus, speeds, free, 8, most=200)
    assert np.all(taken.sum(axis=0) <= free)
    assert np.all((taken.sum(axis=1) == gpus) | (taken.sum(axis=1) == 0))


def test_the_job_that_minds_more_is_kept_together():
    gpus, speeds = np.array([4, 4]), np.array([[1.0, 0.95], [1.0, 0.4]])
    taken = placed(gpus, speeds, np.array([5, 3]), 8)
    assert np.count_nonzero(taken, axis=1).tolist() == [2, 1]
    assert potential(gpus, speeds, np.array([1, 1])) == pytest.approx([0.2, 2.4])


def test_a_job_takes_the_fullest_node_that_fits_else_few_nodes():
    assert quasi_consolidated(2, np.array([8, 3, 2])).tolist() == [0, 0, 2]
    assert quasi_consolidated(6, np.array([1, 4, 5])).tolist() == [0, 1, 5]
    assert quasi_consolidated(9, np.array([4, 4])).tolist() == [0, 0]


def test_spreads_are_told_without_naming_nodes():
    assert spreads(3, 8, 2) == ((3,), (2, 1))
    assert spreads(10, 8, 1) == ()
