from __future__ import annotations

import numpy as np
import pytest
from outcome_worlds import busy_site, history, job, jobs_of

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.models.runtime.history_index import ALL, LEVELS, MANY, HistoryIndex

HOUR_S = 3600.0


def of_alice(past: HistoryIndex, **columns: object) -> dict[str, float]:
    return {name: float(column[0]) for name, column in past.columns(job(**columns), ALL).items()}


def test_the_last_runs_of_a_name_are_told_in_logarithms():
    past = HistoryIndex.of(history([100, 200, 400, 800, 1600, 3200], name=["train"] * 6))
    known = of_alice(past, name="train")
    assert known["name_last"] == pytest.approx(np.log([1600, 3200]).mean())
    assert known["name_median"] == pytest.approx(np.log(800))
    assert known["name_usual"] == pytest.approx(np.log([100, 200, 400, 800, 1600, 3200]).mean())
    assert known["name_spread"] == pytest.approx(np.log([100, 200, 400, 800, 1600, 3200]).std())
    assert known["name_runs"] == 6


def test_names_that_differ_in_numbers_are_one_kind():
    known = of_alice(HistoryIndex.of(history([600, 600])), name="train_99")
    assert (known["name_runs"], known["kind_runs"], np.isnan(known["name_last"])) == (0, 2, True)


def test_one_run_has_no_spread_and_equal_runs_have_none_left_over_from_rounding():
    known = of_alice(HistoryIndex.of(history([7] + [600] * 3000, name=["once"] + ["train"] * 3000)), name="train")
    assert known["name_spread"] == 0
    once = of_alice(HistoryIndex.of(history([7] + [600] * 3000, name=["once"] + ["train"] * 3000)), name="once")
    assert np.isnan(once["name_spread"])


def test_no_more_than_the_last_runs_count():
    assert of_alice(HistoryIndex.of(history([60] * 50)))["user_runs"] == MANY


def test_only_what_had_ended_by_then_is_known():
    outcomes = history([10 * HOUR_S, 60, 60], first_submit_s=[0, 1 * HOUR_S, 2 * HOUR_S])
    past = HistoryIndex.of(outcomes)
    known = past.known_at(past.runs.first_submit_s)
    assert dict(zip(past.runs.job_id.tolist(), known.tolist(), strict=True)) == {1: 0, 2: 0, 3: 1}
    assert past.columns(past.runs, ALL, known)["user_runs"].tolist() == [0, 1, 0]


def test_knowing_all_is_the_same_for_training_and_serving():
    outcomes = busy_site(400)
    past = HistoryIndex.of(outcomes)
    later = busy_site(100, seed=1)
    now, then = past.columns(jobs_of(later), ALL), past.columns(jobs_of(later), ALL, np.full(100, len(past)))
    assert all(np.array_equal(now[name], then[name], equal_nan=True) for name in now)


def test_every_level_counts_its_own_runs():
    columns = {"user": ["alice", "alice", "bob", "bob"], "gpus": [1, 2, 1, 1], "time_limit_s": [60, 60, 60, 900]}
    past = HistoryIndex.of(history([60, 60, 60, 60], **columns))
    known = of_alice(past, gpus=1, time_limit_s=60.0)
    counted = {level: known[f"{level}_runs"] for level in LEVELS}
    assert counted == {"task": 0, "name": 0, "kind": 2, "user": 2, "width": 1, "limit": 2, "gpus": 3, "site": 4}


def test_runs_that_others_ended_and_runs_that_never_started_say_nothing():
    states = [JobState.COMPLETED, JobState.NODE_FAIL, JobState.CANCELLED]
    past = HistoryIndex.of(history([60] * 3, state=[int(s) for s in states], started_s=[0, 0, np.nan]))
    assert past.runs.job_id.tolist() == [1]


def test_a_job_without_a_limit_is_like_others_without():
    past = HistoryIndex.of(history([60, 60], time_limit_s=[np.inf, np.nan]))
    assert of_alice(past, time_limit_s=np.inf)["limit_runs"] == 2


def test_adding_a_history_bit_by_bit_in_any_order_is_the_same_as_all_at_once():
    outcomes = busy_site(200)
    parts = [outcomes.take(slice(0, 70)), outcomes.take(slice(70, None))]
    whole = HistoryIndex.of(outcomes, most=150)
    for first, second in (parts, parts[::-1]):
        assert HistoryIndex.of(first, most=150).plus(second, 150).runs.equals(whole.runs)


def test_a_run_told_twice_counts_once():
    outcomes = busy_site(50)
    assert len(HistoryIndex.of(outcomes).plus(outcomes)) == 50


def test_an_empty_history_knows_nothing():
    known = of_alice(HistoryIndex.of(history([])))
    assert all(np.isnan(value) or value == 0 for value in known.values())


def test_texts_that_no_row_has_change_nothing():
    outcomes = busy_site(30)
    queue = jobs_of(outcomes)
    padded = Labels(queue.name.codes, (*queue.name.names, *(f"never {i}" for i in range(100))))
    columns = {name: getattr(queue, name) for name in queue.__dataclass_fields__} | {"name": padded}
    past = HistoryIndex.of(outcomes)
    plain, other = past.columns(queue, ALL), past.columns(type(queue)(**columns), ALL)
    assert all(np.array_equal(plain[name], other[name], equal_nan=True) for name in plain)
