"""The total order of jobs: quick or not, it is the one that sorting by each key in turn gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import QosTable
from slurmsched.decide.ordering.ranking import order, qos_classes, queueing_s, waited_s

NOW_S = 1e9
keys = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 60.0, -1.0, float("inf"), float("-inf"), float("nan")]), st.floats(width=64)
)
whole = st.one_of(st.integers(-3, 3), st.integers(-(2**40), 2**40))
row = st.tuples(keys, st.booleans(), st.sampled_from([0.0, 5.0, 1e6]), whole, whole, st.sampled_from([0.0, 1.7e9]))


@given(st.lists(row, max_size=30), st.randoms(use_true_random=False))
def test_jobs_are_ordered_by_class_then_starvation_then_key_then_priority_then_arrival(rows, random):
    job_id = random.sample(range(1, 1000), len(rows))
    wanted = sorted(range(len(rows)), key=lambda at: place(*rows[at], job_id[at]))
    key, starving, waited, classes, base, came_s = (
        np.array([row[column] for row in rows], dtype=kind)
        for column, kind in enumerate((np.float64, np.bool_, np.float64, np.int64, np.int64, np.float64))
    )
    assert order(key, starving, waited, classes, base, came_s, np.array(job_id, dtype=np.int64)).tolist() == wanted


def place(key: float, starving: bool, waited: float, klass: int, base: int, came_s: float, job_id: int):
    value = -waited if starving else (float("inf") if key != key else key)
    return -klass, not starving, value, -base, came_s, job_id


def test_a_job_of_several_qos_is_in_the_class_of_the_highest():
    names = ["low", "high,low", "low,high", "low,gone", "gone", ""]
    qos = QosTable(Labels.of(["low", "high"]), np.array([10, 100], dtype=np.int64))
    assert qos_classes(job_table(len(names), qos=names), qos).tolist() == [10, 100, 100, 10, 0, 0]


def test_a_job_that_may_not_start_does_not_queue_and_has_no_wait_of_zero():
    pending = job_table(3, eligible_s=[NOW_S - 60.0, np.nan, NOW_S + 60.0])
    assert queueing_s(pending, NOW_S).tolist()[0] == 60.0
    assert np.isnan(queueing_s(pending, NOW_S)[1:]).all()
    assert waited_s(pending, NOW_S).tolist() == [60.0, 0.0, 0.0]
