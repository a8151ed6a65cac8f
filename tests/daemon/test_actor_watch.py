"""The reasons to trust an actor no longer."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
from decide.views import jobs, view

from slurmsched.daemon.actor_watch import CYCLES, FEWEST_CYCLES, MOST_S, OUTSIDE_SHARE, ActorWatch
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor, LearnedPriority

WIDE = len(FEATURES)
SEEN = view(jobs(3), [600, 1200, 2400])
FAMILIAR = Actor(
    np.ones(WIDE), np.full(WIDE, -99.0), np.full(WIDE, 99.0), np.zeros((WIDE, 1)), np.zeros(1), np.zeros(1)
)
STRANGE = replace(FAMILIAR, low=np.full(WIDE, 90.0))


def clock(step_s: float):
    times = count(0.0, step_s)
    return lambda: next(times)


def test_a_quick_and_familiar_actor_stays():
    watch = ActorWatch(clock(MOST_S / 2))
    assert [watch.against(SEEN, LearnedPriority(FAMILIAR)) for _ in range(2 * FEWEST_CYCLES)] == [""] * 200


def test_an_actor_that_is_slow_twice_in_a_row_goes_and_one_pause_costs_nothing():
    times = iter([0.0, 10 * MOST_S, 1.0, 1.0, 2.0, 2.0 + 2 * MOST_S, 3.0, 3.0 + 3 * MOST_S])
    watch = ActorWatch(lambda: next(times))
    assert watch.against(SEEN, LearnedPriority(FAMILIAR)) == ""
    assert watch.against(SEEN, LearnedPriority(FAMILIAR)) == "its scores of 3 jobs took 40 ms, and 20 may be"


def test_an_actor_with_a_score_that_is_no_number_goes():
    broken = LearnedPriority(replace(FAMILIAR, linear=np.full(WIDE, np.inf)))
    with np.errstate(invalid="ignore"):
        assert ActorWatch(clock(0.0)).against(SEEN, broken) == "a score was no number"


def test_an_actor_goes_when_too_many_of_the_latest_cycles_are_strange_to_it():
    watch, most = ActorWatch(clock(0.0)), int(OUTSIDE_SHARE * FEWEST_CYCLES)
    answers = [watch.against(SEEN, LearnedPriority(STRANGE)) for _ in range(most)]
    answers += [watch.against(SEEN, LearnedPriority(FAMILIAR)) for _ in range(CYCLES)]
    assert set(answers) == {""}
    answers = [watch.against(SEEN, LearnedPriority(STRANGE)) for _ in range(int(OUTSIDE_SHARE * CYCLES) + 1)]
    assert [bool(one) for one in answers] == [False] * (len(answers) - 1) + [True]
    assert "in 5% of the last 500 cycles" in answers[-1]


def test_a_feature_that_never_varied_in_training_is_never_strange():
    assert not replace(FAMILIAR, low=np.zeros(WIDE), high=np.zeros(WIDE)).unfamiliar(np.full((1, WIDE), 7.0)).any()
