"""Forecasts of a model that is trained anew every day, as a simulated policy is told them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, LIMIT, repeating
from slurmsched.simulator.trace_forecasts import learnt, trained
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers

EVERYTHING = synthetic(SyntheticSpec(jobs=900, cluster_gpus=8, seed=5, habits=SyntheticUsers(users=12)))
HISTORY, JOBS = EVERYTHING.take(slice(0, 500)), EVERYTHING.take(slice(500, 900))
HOW = repeating(LAST_OF_NAME)


def test_what_is_told_is_whole_and_within_the_limit():
    told = trained(JOBS, HISTORY, how=HOW)
    assert len(told) == len(JOBS)
    assert (told.low_s <= told.runtime_s).all()
    assert (told.runtime_s <= told.high_s).all()
    assert (told.high_s <= np.maximum(JOBS.time_limit_s, 1.0)).all()
    assert sum(source.startswith("trained model") for source in told.source) > 0.9 * len(JOBS)


def test_jobs_before_there_is_enough_to_train_on_are_told_what_the_baseline_says():
    first = JOBS.take(slice(0, 100))
    told, baseline = trained(first, how=HOW), learnt(first)
    assert list(told.runtime_s) == list(baseline.runtime_s)
    assert list(told.source) == list(baseline.source)


def test_a_model_of_the_limit_says_the_limit_of_users_it_knows():
    exact = [replace(part, time_limit_s=part.runtime_s) for part in (JOBS, HISTORY)]
    told = trained(*exact, how=repeating(LIMIT))
    known = np.isin(list(JOBS.user), list(set(HISTORY.user)))
    assert known.mean() > 0.9
    assert told.runtime_s[known] == pytest.approx(np.maximum(JOBS.runtime_s, 1.0)[known])


def test_nothing_is_known_of_the_future():
    at = 200
    changed = JOBS.runtime_s.copy()
    late = JOBS.submit_s + changed > JOBS.submit_s[at]
    changed[late] *= 3.0
    other = replace(JOBS, runtime_s=changed)
    told = [trained(jobs, HISTORY, how=HOW) for jobs in (JOBS, other)]
    known = slice(0, at + 1)
    assert list(told[0].runtime_s[known]) == list(told[1].runtime_s[known])


def test_training_needs_time_between():
    with pytest.raises(ValueError, match="every 0"):
        trained(JOBS, HISTORY, 0.0, how=HOW)
