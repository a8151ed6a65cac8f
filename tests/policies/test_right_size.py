"""The amount of one resource that a job shall ask for: never less than its GPUs' part, never more than there is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.policies.rightsizing import right_size

NAN, INF = math.nan, math.inf
amounts = st.floats(0.5, 1e6)
unsaid = st.just(0.0)


@pytest.mark.parametrize(
    ("own", "share", "used", "least", "best", "spare", "expected"),
    [
        (6, 2, NAN, 0, 0, 0, 6),  # nothing is known
        (6, 2, 1.5, 0, 0, 0, 2),  # its GPUs' part, though it uses less
        (6, 2, 3.0, 0, 0, 0, 3),  # what its kind uses
        (6, 2, 3.0, 0, 0, 5, 5),  # and more where nobody else needs it
        (6, 2, 3.0, 0, 0, 8, 6),  # but no more than it asks for
        (6, 2, NAN, 1, 8, 8, 8),  # except up to what its owner can use
        (6, 2, 4.0, 1, 8, 0, 4),  # an owner's least is no reason to take what runs have used
        (1, 2, 0.1, 0, 0, 0, 1),  # it asks for less than its part
        (6, 2, INF, 0, 0, 0, 6),  # a run needed more than it had
        (6, 2, NAN, 3, 3, 8, 3),  # no more than three
        (6, 2, NAN, 1, 1, 8, 2),  # but never less than its part
    ],
)
def test_a_size(own, share, used, least, best, spare, expected):
    assert right_size(own, share, used, least, best, spare) == expected


@given(
    amounts,
    amounts,
    st.just(NAN) | st.just(INF) | amounts,
    st.tuples(unsaid, unsaid) | st.tuples(amounts, amounts).map(sorted),
    unsaid | amounts,
)
def test_whatever_is_known_a_size_keeps_its_bounds(own, share, used, said, spare):
    least, best = said
    size = right_size(own, share, used, least, best, spare)
    assert size >= min(own, share)
    assert size >= min(own, used if not math.isnan(used) else 0.0)
    assert size >= min(own, least)
    assert size <= max(own, best)
    if size > own:
        assert size <= spare
    if math.isnan(used) and not best:
        assert size == own
