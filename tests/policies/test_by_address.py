"""Named tuples whose address compiled functions take."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import pytest

from slurmsched.policies.by_address import KEPT, Packed, entry_by_address, packed
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


def read_only(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


ARRAYS = (
    np.arange(4.0), np.arange(8.0)[::2], np.arange(4), np.arange(4.0, dtype=np.float32), np.arange(4.0).reshape(2, 2),
    np.asfortranarray(np.ones((3, 2))), np.ones((3, 2))[:, :1], read_only(np.arange(4.0)), np.ones(4, dtype=np.bool_),
    np.zeros(4, dtype=[("a", np.int64), ("b", np.float64)]), np.rec.array(np.zeros(4, dtype=[("a", np.int64)])),
    np.rec.array(np.zeros(4, dtype=[("b", np.float64)])), np.zeros(4, dtype=[("a", np.int64)]),
    np.frombuffer(b"\0" * 33, dtype=np.uint8)[1:].view(np.int64),
)  # fmt: skip


def test_the_remembered_type_of_a_tuple_is_the_one_that_numba_gives_it():
    from numba import typeof

    values = [Counters(Inside(array, flag), at, 2.0) for array in ARRAYS for flag in (True, 1) for at in (1, 1.0)]
    for value in (*values, *values):
        assert Packed(value)._numba_type_.target == typeof(value)
