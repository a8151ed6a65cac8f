"""Struct arrays, which pass many columns to a compiled function as one argument."""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np

T = TypeVar("T", bound=tuple[object, ...])


def writable(columns: T) -> T:
    """Return copies of the columns, by the same names.

    A read-only array, such as a column of a View, is of another type, for which a function would be compiled again.
    """
    return type(columns)(*(np.array(column) for column in columns))


def records(columns: T) -> T:
    """Return the columns, by the same names, as views of one array of records.

    The cost of compiling a function grows with its arguments, and each array of a tuple counts as several.
    """
    names: tuple[str, ...] = columns._fields  # type: ignore[attr-defined]
    arrays = [np.asarray(column) for column in columns]
    kind = np.dtype([(name, array.dtype) for name, array in zip(names, arrays, strict=True)], align=True)
    packed = np.recarray(len(arrays[0]), dtype=kind)
    for name, array in zip(names, arrays, strict=True):
        packed[name] = array
    return cast(T, packed)
