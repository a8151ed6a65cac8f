from __future__ import annotations

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.models.runtime.point_predictors import STOPPED_BY, STRETCHES, stopping_bags


def test_a_users_runs_of_one_stretch_are_held_out_together():
    runs = 2000
    users = Labels(np.random.default_rng(0).integers(0, 10, runs), tuple(f"user{n}" for n in range(10)))
    bags = stopping_bags(users, 4)
    stretch = np.arange(runs) * STRETCHES // runs
    for user, at in set(zip(users.codes.tolist(), stretch.tolist(), strict=True)):
        together = bags[(users.codes == user) & (stretch == at)]
        assert (together == together[0]).all()


def test_about_as_many_runs_as_asked_tell_when_to_stop():
    users = Labels(np.arange(2000) % 10, tuple(f"user{n}" for n in range(10)))
    held_out = (stopping_bags(users, 4) == -1).mean(axis=0)
    assert (np.abs(held_out - STOPPED_BY) < 0.03).all()


def test_bags_differ_and_are_the_same_each_time():
    users = Labels(np.zeros(400, dtype=np.int64), ("alice",))
    bags = stopping_bags(users, 4)
    assert (bags == stopping_bags(users, 4)).all()
    assert len(np.unique(bags, axis=1).T) == 4
