"""Ties: floats are compared in steps, since their last bits depend on the processor; rules decide what is equal. Pure.

Where two are equal, nothing that runs is stopped or moved, and of pending jobs the first come is first. What differs
between processors, by some 1e-16 of a value, are exponentials, logarithms and powers of vector units, and products of
matrices: they are rounded where they are computed, since a sum, a product or a root is the same everywhere. Sorting
without ``kind="stable"`` leaves equal values in an order that depends on the processor too.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from .columns import FloatArray

_CUT = 10  #: low bits of a float that are not compared, of 53: steps of about 1e-13 of it, 0.2 ms of a Unix time

ABOVE = 1.0 + 2.0**-40
"""The factor by which a value must exceed another one to be larger, in compiled loops that choose between two."""


@overload
def in_ms(seconds: float) -> float: ...
@overload
def in_ms(seconds: FloatArray) -> FloatArray: ...
def in_ms(seconds: float | FloatArray) -> float | FloatArray:
    """Return *seconds* in whole milliseconds, as floats: infinity and NaN stay."""
    with np.errstate(over="ignore"):
        whole: FloatArray = np.rint(np.multiply(seconds, 1000.0))
    return whole


def to_ms(seconds: FloatArray) -> FloatArray:
    """Return *seconds* rounded to milliseconds, in seconds."""
    return np.divide(in_ms(seconds), 1000.0)


@overload
def in_points(values: float) -> float: ...
@overload
def in_points(values: FloatArray) -> FloatArray: ...
def in_points(values: float | FloatArray) -> float | FloatArray:
    """Return keys, prices or shares of any unit, rounded to about 13 digits: infinity and NaN stay.

    Rounded values are exactly as they were, so that rounding twice does no more.
    """
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    rounded: FloatArray = ((bits + (1 << _CUT - 1)) & (-1 << _CUT)).view(np.float64)
    return rounded


def point_of(values: FloatArray) -> FloatArray:
    """Return the step between each of *values* and the next one that ``in_points`` tells from it."""
    return np.asarray(np.spacing(np.abs(values)) * 2.0**_CUT)
