"""What every ordering promises, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, running_jobs, view, views
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.cluster.columns import FloatArray, IntArray
from slurmsched.cluster.state import View
from slurmsched.policies.contract import ORDERINGS, Ordering, find_ordering

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


def elsewhere_and_later(seen: View, rows: IntArray, ran_s: float) -> View:
    """Only these *rows* of the queue, a week later, beside nothing that runs, on other nodes; each job ran longer."""
    few = seen.take(rows)
    pending = replace(few.pending, ran_s=few.pending.ran_s + ran_s)
    empty, none = seen.running.take(np.zeros(0, dtype=np.int64)), few.forecast_running.take(np.zeros(0, dtype=np.int64))
    rooms = nodes((8,), (3,))
    return replace(few, now_s=seen.now_s + 604_800, pending=pending, running=empty, forecast_running=none, nodes=rooms)


def demand_declared_changes(ordering: Ordering, seen: View, rows: IntArray) -> None:
    """The key of a job is the same whatever else there is, as far as the ordering declares that."""
    ran_s = 3600.0 if ordering.changes == "never" else 0.0
    assert np.array_equal(ordering(seen)[rows], ordering(elsewhere_and_later(seen, rows, ran_s)), equal_nan=True)


TUNED = ["edf rest=remaining"]
"""Lines of orderings whose keys change at other moments with these parameters."""


@pytest.mark.parametrize(
    "name", [*sorted(name for name in ORDERINGS if ORDERINGS[name].changes != "with_time"), *TUNED]
)
@given(views(), st.randoms())
@anything
def test_a_key_changes_only_as_its_ordering_declares(name, seen, random):
    count = len(seen.pending)
    rows = np.array(random.sample(range(count), random.randint(0, count)), dtype=np.int64)
    demand_declared_changes(find_ordering(name), seen, rows)


LIARS: dict[str, Callable[[View], FloatArray]] = {
    "the time": lambda seen: seen.now_s - seen.pending.first_submit_s,
    "the nodes": lambda seen: seen.pending.gpus + float(seen.nodes.gpus_used.sum()),
    "the running jobs": lambda seen: seen.pending.gpus + float(len(seen.running)),
    "the other pending jobs": lambda seen: seen.pending.gpus / seen.pending.gpus.sum(),
    "the time it ran": lambda seen: seen.pending.ran_s,
}


@pytest.mark.parametrize("reads", LIARS)
def test_a_false_declaration_is_found(reads):
    seen = view(jobs(3, gpus=[1, 2, 64]), running=running_jobs(2))
    with pytest.raises(AssertionError):
        demand_declared_changes(Ordering("liar", LIARS[reads], "Lies.", changes="never"), seen, np.array([2, 0]))


def test_an_ordering_that_declares_nothing_is_asked_at_every_decision():
    assert Ordering("plain", LIARS["the time"], "Reads the time.").changes == "with_time"


@every_ordering
def test_it_says_in_a_sentence_what_it_does(name):
    assert find_ordering(name).summary.endswith(".")


def test_the_columns_of_a_view_cannot_be_written():
    seen = view(jobs(2))
    for column in (seen.pending.gpus, seen.forecast.runtime_s, seen.pending.user.codes, seen.nodes.gpus_used):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
