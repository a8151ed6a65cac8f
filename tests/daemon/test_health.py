from __future__ import annotations

from slurmsched.clock import ManualClock
from slurmsched.daemon.health import Health


def test_before_the_first_cycle_it_is_not_healthy():
    assert Health(ManualClock()).problem() == "no cycle has succeeded yet: no cycle has ended yet"


def test_a_good_cycle_makes_it_healthy_for_three_beats():
    clock = ManualClock()
    health = Health(clock)
    health.ended("", 15.0)
    clock.now_s = 45.0
    assert health.problem() == ""
    clock.now_s = 46.0
    assert health.problem() == "the last good cycle ended 46 s ago, more than 3 beats: no cycle has ended since"


def test_one_lost_cycle_is_borne_and_many_are_told_with_the_reason():
    clock = ManualClock()
    health = Health(clock)
    health.ended("", 15.0)
    clock.now_s = 15.0
    health.ended("squeue did not answer", 15.0)
    assert health.problem() == ""
    clock.now_s = 50.0
    health.ended("squeue did not answer", 15.0)
    assert health.problem().endswith("more than 3 beats: squeue did not answer")
    health.ended("", 15.0)
    assert health.problem() == ""


def test_a_first_cycle_that_fails_gives_the_reason():
    health = Health(ManualClock())
    health.ended("squeue did not answer", 15.0)
    assert health.problem() == "no cycle has succeeded yet: squeue did not answer"


def test_three_beats_in_which_nothing_is_written_down_are_told_with_the_reason():
    clock = ManualClock()
    health = Health(clock)
    health.ended("", 15.0)
    health.remembered("")
    clock.now_s = 40.0
    health.ended("", 15.0)
    health.remembered("the disk is full")
    assert health.problem() == ""
    clock.now_s = 50.0
    health.ended("", 15.0)
    health.remembered("the disk is full")
    assert health.problem() == "nothing has been stored for 50 s, more than 3 beats: the disk is full"
    health.remembered("")
    assert health.problem() == ""


def test_a_database_that_never_took_anything_is_told_too():
    clock = ManualClock()
    health = Health(clock)
    for clock.now_s in (0.0, 15.0, 30.0, 45.0, 60.0):
        health.ended("", 15.0)
        health.remembered("the disk is full")
    assert "the disk is full" in health.problem()
