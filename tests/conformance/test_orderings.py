"""What every ordering promises, whoever wrote it."""

from __future__ import annotations

import numpy as np
import pytest
from decide.views import jobs, view, views
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.policies.contract import ORDERINGS, find_ordering

every_ordering = pytest.mark.parametrize("name", sorted(ORDERINGS))
anything = settings(max_examples=50, deadline=None)


def test_the_built_in_ones_are_there():
    assert {"fifo", "sjf", "qssf"} <= set(ORDERINGS)


@every_ordering
@given(views())
@anything
def test_one_finite_number_per_job_wherever_there_is_a_forecast(name, seen):
    key = find_ordering(name)(seen)
    assert key.shape == (len(seen.pending),)
    assert key.dtype == np.float64
    assert np.isfinite(key[np.isfinite(seen.forecast.runtime_s)]).all()


@every_ordering
@given(views(), st.randoms())
@anything
def test_a_jobs_number_does_not_depend_on_the_row_it_stands_in(name, seen, random):
    rows = np.array(random.sample(range(len(seen.pending)), len(seen.pending)), dtype=np.int64)
    ordering = find_ordering(name)
    assert np.array_equal(ordering(seen)[rows], ordering(seen.take(rows)), equal_nan=True)


@every_ordering
@given(views())
@anything
def test_asking_twice_gives_the_same_and_changes_nothing(name, seen):
    before = seen.pending.take(np.arange(len(seen.pending)))
    ordering = find_ordering(name)
    assert np.array_equal(ordering(seen), ordering(seen), equal_nan=True)
    assert seen.pending.equals(before)


@every_ordering
def test_it_says_in_a_sentence_what_it_does(name):
    assert find_ordering(name).summary.endswith(".")


def test_the_columns_of_a_view_cannot_be_written():
    seen = view(jobs(2))
    for column in (seen.pending.gpus, seen.forecast.runtime_s, seen.pending.user.codes, seen.nodes.gpus_used):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
