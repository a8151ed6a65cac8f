"""The surroundings of a cycle that are asked before it."""

from __future__ import annotations

import math

import pytest

from slurmsched.daemon.controller import CLOCK_MOST_S, clocks_differ

ASKED_S, TOOK_S = 1e9, 30.0


@pytest.mark.parametrize("inside_s", [0.0, 15.0, TOOK_S])
@pytest.mark.parametrize("off_s", [0.0, CLOCK_MOST_S])
def test_a_clock_that_was_right_at_some_moment_of_a_slow_answer_is_right(inside_s, off_s):
    for slurms_s in (ASKED_S + inside_s - off_s * (inside_s == 0.0), ASKED_S + inside_s + off_s * (inside_s == TOOK_S)):
        assert clocks_differ(ASKED_S, slurms_s, ASKED_S + TOOK_S) == ""


def test_it_is_said_by_how_much_and_which_clock_is_behind():
    wrong_s = 2 * 3600.0
    assert "2 h" in clocks_differ(ASKED_S, ASKED_S - wrong_s, ASKED_S)
    assert "ahead of slurmctld's" in clocks_differ(ASKED_S, ASKED_S - wrong_s, ASKED_S)
    assert "behind slurmctld's" in clocks_differ(ASKED_S, ASKED_S + wrong_s, ASKED_S)


def test_a_slurmctld_that_does_not_tell_its_time_costs_no_cycle():
    assert clocks_differ(ASKED_S, math.nan, ASKED_S) == ""
