"""Runtimes from iteration times."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.policies.deadlines.iteration_pace import IterationTime, on_nodes, pace, rest


def marks(*took_s):
    return np.cumsum([0.0, *took_s]).tolist()


def test_slow_iterations_at_the_beginning_do_not_count():
    assert pace(marks(60.0, *[2.0] * 19)) == IterationTime(2.0, 0.0)


def test_what_comes_after_the_time_to_measure_does_not_count():
    assert pace(marks(*[10.0] * 30, *[99.0] * 90)).median_s == 10.0


def test_a_few_iterations_say_nothing():
    assert pace([]) is None
    assert pace(marks(1.0, 1.0, 1.0)) is None


def test_time_that_runs_backwards_is_refused():
    with pytest.raises(ValueError, match="never fall"):
        pace([0.0, 2.0, 1.0])


def test_each_doubling_of_nodes_costs_what_the_first_one_did():
    one, two = IterationTime(10.0, 0.0), IterationTime(12.0, 0.0)
    assert [on_nodes(one, two, nodes).median_s for nodes in (1, 2, 4, 8)] == [10.0, 12.0, 14.0, 16.0]


def test_one_node_needs_no_measurement_on_two_and_more_do():
    assert on_nodes(IterationTime(3.0, 0.1), None, 1) == IterationTime(3.0, 0.1)
    with pytest.raises(ValueError, match="two nodes is needed"):
        on_nodes(IterationTime(3.0, 0.1), None, 4)
    with pytest.raises(ValueError, match="accepted are 1 and more"):
        on_nodes(IterationTime(3.0, 0.1), None, 0)


def test_the_upper_decile_covers_nine_in_ten_jobs_of_noisy_iterations():
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        measured = pace(marks(*random.normal(2.0, 0.4, 60)))
        covered += rest(measured, 10_000).high_s >= 20_000.0
    assert covered / 300 == pytest.approx(0.9, abs=0.05)


def test_fewer_than_no_iterations_are_refused():
    with pytest.raises(ValueError, match="accepted are 0 and more"):
        rest(IterationTime(1.0, 0.0), -1)
