"""The mixture of the additive model with earlier runs."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_worlds import busy_site, jobs_of

from slurmsched.models.runtime.history_index import HistoryIndex
from slurmsched.models.runtime.mixture import Mixture, Part
from slurmsched.models.runtime.model_inputs import CLASSES, classes, inputs, numbers
from slurmsched.models.runtime.name_buckets import NameBuckets


def test_each_class_is_mixed_with_its_own_column_and_the_others_are_left_alone():
    outcomes = busy_site(400)
    columns = inputs(jobs_of(outcomes), HistoryIndex.of(outcomes), NameBuckets.of({}))
    kinds, model = classes(columns), np.linspace(5.0, 6.0, 400)
    first, second = np.unique(kinds, return_counts=True)[0][[0, -1]].tolist()
    blend = Mixture({first: Part("user_last", 0.4, 0.4, 1.0), second: Part("task_median", 1.0, 1.0, 1.0)})
    mixed = blend.mixed(columns, model)
    for kind, name, share in ((first, "user_last", 0.4), (second, "task_median", 1.0)):
        rows = kinds == kind
        assert mixed[rows] == pytest.approx(share * numbers(columns, name)[rows] + (1 - share) * model[rows])
    rest = ~np.isin(kinds, (first, second))
    assert rest.any()
    assert np.array_equal(mixed[rest], model[rest])


def test_where_there_is_no_run_to_repeat_the_model_speaks_alone():
    outcomes = busy_site(50)
    columns = inputs(jobs_of(outcomes), HistoryIndex.of(outcomes.take(slice(0, 0))), NameBuckets.of({}))
    model = np.linspace(5.0, 6.0, 50)
    assert np.array_equal(Mixture({0: Part("user_last", 1.0, 1.0, 1.0)}).mixed(columns, model), model)


def test_a_mixture_of_a_class_that_is_none_is_refused():
    with pytest.raises(ValueError, match="classes 0 to"):
        Mixture.of_document({str(CLASSES): {"column": "user_last", "near": 0.5, "far": 0.5, "apart": 1.0}})


def test_a_share_above_one_or_of_an_unknown_column_is_refused():
    for wrong in ({"near": 1.5}, {"far": -0.1}, {"apart": 0.0}, {"column": "site_usual"}):
        with pytest.raises(ValueError, match=r"accepted are shares of 0\.\.1 of task_last"):
            Mixture.of_document({"0": {"column": "user_last", "near": 0.5, "far": 0.5, "apart": 1.0} | wrong})


def test_a_run_that_is_far_from_the_model_counts_with_the_other_share():
    outcomes = busy_site(400)
    columns = inputs(jobs_of(outcomes), HistoryIndex.of(outcomes), NameBuckets.of({}))
    repeat = numbers(columns, "user_last")
    model = repeat + np.where(np.arange(400) % 2, 0.4, 3.0)
    mixed = Mixture({kind: Part("user_last", 1.0, 0.5, 1.0) for kind in range(CLASSES)}).mixed(columns, model)
    assert mixed[1::2] == pytest.approx(repeat[1::2])
    assert mixed[::2] == pytest.approx(repeat[::2] + 1.5)


def test_where_the_last_run_is_exact_or_wildly_off_it_is_repeated_only_when_it_is_near():
    outcomes = busy_site(2000)
    columns = inputs(jobs_of(outcomes), HistoryIndex.of(outcomes), NameBuckets.of({}))
    repeat = numbers(columns, "user_last")
    near = np.random.default_rng(0).random(2000) < 0.7
    model = repeat + np.where(near, 0.3, 4.0)
    blend = Mixture.fit(columns, model, np.where(near, repeat, model))
    assert blend.parts
    assert all((part.near, part.far) == (1.0, 0.0) for part in blend.parts.values() if part.column == "user_last")
    assert np.abs(blend.mixed(columns, model) - np.where(near, repeat, model)).max() < 0.3


def test_a_blend_is_never_worse_than_the_model_on_the_runs_it_was_fitted_to():
    outcomes = busy_site(2000)
    columns = inputs(jobs_of(outcomes), HistoryIndex.of(outcomes), NameBuckets.of({}))
    truth = np.log(outcomes.runtime_s)
    model = truth + np.random.default_rng(0).normal(0.0, 1.0, 2000)
    mixed = Mixture.fit(columns, model, truth).mixed(columns, model)
    kinds = classes(columns)
    for kind in np.unique(kinds).tolist():
        off, alone = ((forecast - truth)[kinds == kind] for forecast in (mixed, model))
        assert np.abs(off).mean() / np.abs(alone).mean() + (off**2).mean() / (alone**2).mean() <= 2 + 1e-9
