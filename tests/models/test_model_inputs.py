from __future__ import annotations

import numpy as np
import pytest
from outcome_worlds import busy_site, history, job, jobs_of

from slurmsched.cluster.columns import Labels
from slurmsched.models.runtime.history_index import HistoryIndex
from slurmsched.models.runtime.model_inputs import (
    CLASSES,
    PROFILE,
    WORDS,
    Profiles,
    classes,
    inputs,
    numbers,
)
from slurmsched.models.runtime.name_buckets import NameBuckets

NO_BUCKETS = NameBuckets.of({})
MONDAY_NOON_S = 1_700_438_400.0 + 12 * 3600  # 20 November 2023


def test_every_column_has_words():
    assert set(inputs(job(), HistoryIndex.of(history([60])), NO_BUCKETS)) == set(WORDS)


def test_the_time_of_submission_is_told_in_utc():
    columns = inputs(job(first_submit_s=MONDAY_NOON_S), HistoryIndex.of(history([])), NO_BUCKETS)
    assert (columns["hour"][0], columns["weekday"][0]) == (12, 4)  # Thursday, when 1970 began, is 0


@pytest.mark.parametrize("limit_s", [np.inf, np.nan, 0.0])
def test_a_limit_that_is_none_is_missing(limit_s: float):
    assert np.isnan(inputs(job(time_limit_s=limit_s), HistoryIndex.of(history([])), NO_BUCKETS)["limit"][0])


def test_without_a_profile_its_columns_are_missing():
    columns = inputs(job(), HistoryIndex.of(history([])), NO_BUCKETS)
    assert all(np.isnan(numbers(columns, name)[0]) for name in PROFILE)


def test_a_profile_is_looked_at():
    profile = Profiles(np.array([93.0]), np.array([40.0]), np.array([2048.0]))
    columns = inputs(job(), HistoryIndex.of(history([])), NO_BUCKETS, profiles=profile)
    assert [numbers(columns, name)[0] for name in PROFILE] == [93, 40, 2048]


def test_training_and_serving_see_the_same_columns():
    outcomes = busy_site(300)
    past, buckets = HistoryIndex.of(outcomes), NameBuckets.fit(outcomes.name)
    rows = past.runs.take(slice(-50, None))
    trained = inputs(rows, past, buckets, np.full(50, len(past)))
    served = inputs(rows, past, buckets)
    for name, column in trained.items():
        other = served[name]
        if isinstance(column, Labels):
            assert isinstance(other, Labels)
            assert column.equals(other)
        else:
            assert np.array_equal(numbers(trained, name), numbers(served, name), equal_nan=True)


def test_a_job_is_classed_by_the_finest_level_that_knows_it_and_by_how_steady_that_is():
    def kind(runtime_s: list[float], **columns: object) -> int:
        return int(classes(inputs(job(name="train"), HistoryIndex.of(history(runtime_s, **columns)), NO_BUCKETS))[0])

    steady_name = kind([600] * 3, name=["train"] * 3)
    assert kind([600]) == kind([]) == 0
    assert 0 < kind([600] * 3, name=["eval"] * 3) < kind([6, 60_000, 600], name=["eval"] * 3) < steady_name
    assert steady_name < kind([6, 60_000, 600], name=["train"] * 3) < CLASSES


def test_a_queue_of_two_thousand_jobs_of_known_names_is_described_again_and_again_alike():
    outcomes = busy_site(2048)
    past, buckets = HistoryIndex.of(outcomes), NameBuckets.fit(outcomes.name)
    first, again = (inputs(jobs_of(outcomes), past, buckets) for _ in range(2))
    assert all(np.array_equal(numbers(first, n), numbers(again, n), equal_nan=True) for n in ("user_last", "gpus"))


def test_a_column_of_texts_is_no_column_of_numbers():
    with pytest.raises(ValueError, match="user is a column of texts"):
        numbers(inputs(job(), HistoryIndex.of(history([])), NO_BUCKETS), "user")
