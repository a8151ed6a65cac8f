"""Named tuples whose address compiled functions take."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import pytest

from slurmsched.policies.by_address import KEPT, entry_by_address, packed
from slurmsched.policies.compiled import HAVE_NUMBA

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is not installed")


class Inside(NamedTuple):
    values: np.ndarray
    flag: bool


@packed
class Counters(NamedTuple):
    inside: Inside
    at: int
    scale: float


@entry_by_address
def count(counters: Counters, by: float) -> float:
    counters.inside.values[counters.at] += by * counters.scale
    return counters.inside.values[counters.at] if counters.inside.flag else -1.0


def counters_of(at: int, flag: bool = True) -> Counters:
    return Counters(Inside(np.arange(4.0), flag), at, 2.0)


def test_every_tuple_is_read_as_it_is_whatever_was_called_before():
    for number in range(40):
        counters = counters_of(number % 4, flag=number % 3 > 0)
        for turn in (1, 2):
            there = number % 4 + 6.0 * turn
            assert count(counters, 3.0) == (there if number % 3 else -1.0)
            assert counters.inside.values[number % 4] == there
        other = counters._replace(at=0)
        before = other.inside.values[0]
        assert count(other, 1.0) == (before + 2.0 if number % 3 else -1.0)


def test_a_tuple_is_released_after_a_few_others():
    gone = weakref.ref((first := counters_of(1)).inside.values)
    assert count(first, 1.0) == 3.0
    del first
    for _ in range(KEPT):
        count(counters_of(2), 1.0)
    assert gone() is None
