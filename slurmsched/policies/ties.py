"""Ties: floats are compared in steps, since their last bits depend on the processor; rules decide what is equal. Pure.

Where two are equal, nothing that runs is stopped or moved, and of pending jobs the first come is first. Sums in another
order, and exponentials and logarithms of other vector units, differ by some 1e-15 of a value; a step is far larger.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from ..cluster.columns import FloatArray

_CUT = 10  #: low bits of a float that are not compared, of 53: steps of about 1e-13 of it, 0.2 ms of a Unix time


@overload
def in_ms(seconds: float) -> float: ...
@overload
def in_ms(seconds: FloatArray) -> FloatArray: ...
def in_ms(seconds: float | FloatArray) -> float | FloatArray:
    """Return *seconds* in whole milliseconds, as floats: infinity and NaN stay."""
    whole: FloatArray = np.rint(np.multiply(seconds, 1000.0))
    return whole


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
