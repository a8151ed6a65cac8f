"""Who would run now."""

from __future__ import annotations

import numpy as np
from decide.views import nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.decide.ordering.greedy_fit import fill, free_gpus


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_each_that_still_fits_runs_in_order_and_whole(gpus, free):
    runs, left = [], free
    for wanted in gpus:
        runs.append(0 < wanted <= left)
        left -= wanted if runs[-1] else 0
    assert fill(np.array(gpus, dtype=np.int64), free).tolist() == runs


def test_gpus_of_nodes_that_take_no_jobs_are_not_free():
    assert free_gpus(nodes((4, 4), (1, 4))) == 3
    assert free_gpus(nodes((4, 4), usable=False)) == 0
    assert free_gpus(nodes((4,), (6,))) == 0, "more in use than there is: nothing is free, and nothing is owed"
    assert free_gpus(nodes(())) == 0
