"""What should leave an overloaded node: the nearest to the ideal virtual task."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.migration import NOBODY, is_above, nearest_ideal, slowed

OVER_CPUS = np.array([True, False])


def chosen(*uses, over=OVER_CPUS, beside=None):
    rows = np.array(uses, dtype=np.float64).reshape(-1, 2)
    return nearest_ideal(rows, over, np.zeros(len(rows)) if beside is None else np.array(beside))


def test_it_uses_most_of_what_is_overloaded_and_least_of_the_rest():
    assert chosen((0.1, 0.1), (0.5, 0.9), (0.5, 0.2)) == 2
    assert chosen((0.1, 0.1), (0.5, 0.9), over=np.array([False, True])) == 1
    assert chosen() == NOBODY


def test_what_exchanges_most_with_its_neighbours_stays():
    assert chosen((0.5, 0.1), (0.45, 0.1), beside=[10.0, 0.0]) == 1


@examples(200)
@given(st.lists(st.tuples(*[st.floats(0, 2)] * 3), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_nobody_is_passed_over_who_is_at_least_as_near_in_everything(rows, first, second):
    over = np.array([first, second])
    uses, beside = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    best = nearest_ideal(uses, over, beside)
    signs = np.where(over, 1.0, -1.0)
    better = (signs * uses > signs * uses[best]).all(axis=1) & (beside < beside[best])
    assert not better.any()


def test_work_is_slowed_by_what_is_asked_for_beyond_what_is_there():
    assert [slowed(busy, 8.0) for busy in (0.0, 8.0, 12.0)] == [1.0, 1.0, 1.5]
    assert [is_above(busy, 8.0, 0.5) for busy in (4.0, 4.1)] == [False, True]
