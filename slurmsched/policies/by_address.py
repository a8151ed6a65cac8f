"""Compiled functions of the whole state of a cluster, which is written to memory once and passed by its address.

Taking a named tuple of a hundred and fifty arrays apart took Python 80 microseconds a call, and each entry that does it
seconds to compile.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from .compiled import HAVE_NUMBA, Compiled, F

T = TypeVar("T", bound=type)

KEPT = 4
"""So many tuples are kept for the next call: a cluster with its machine, and one that is played forward."""

_classes: set[type] = set()
_kept: dict[int, Packed] = {}
_references: dict[Hashable, Any] = {}


def packed(kind: T) -> T:
    """Mark a class of named tuples whose address ``entry_by_address`` passes."""
    _classes.add(kind)
    return kind


def entry_by_address(function: F) -> F:
    """Compile a function as ``entry`` does, in one form for Python and compiled code: both pass addresses of tuples."""
    return _EntryByAddress(function, "packed", {"_nrt": False}) if HAVE_NUMBA else function  # type: ignore[return-value]


class _EntryByAddress(Compiled):
    def __call__(self, *arguments: Any) -> Any:
        function = self.dispatcher
        if function is self._function:
            return function(*arguments)
        return function(*(_packed_form(one) if type(one) in _classes else one for one in arguments))


class Packed:
    """A named tuple written to memory, which Numba takes for a reference that lives as long as this object."""

    __slots__ = ("_memory", "_numba_type_", "address", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._numba_type_ = _reference(value)
        write = _writer(value.__class__)
        self._memory = np.empty(write(value, 0, 0), dtype=np.uint8)
        self.address = self._memory.ctypes.data
        write(value, self.address, len(self._memory))


def _reference(value: Any) -> Any:
    """Return Numba's type of a reference to *value*, which Numba takes milliseconds to make."""
    key = _form(value)
    found = _references.get(key)
    if found is None:
        from numba import typeof

        from .references import Reference

        found = _references[key] = Reference(typeof(value))
    return found


def _form(value: Any) -> Hashable:
    """Return what decides the type of *value*: of an array its dtype, its dimensions and its layout."""
    kind: type = value.__class__
    if isinstance(value, np.ndarray):
        flags = value.flags
        return kind, value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable
    if isinstance(value, tuple):
        return (kind, *map(_form, value))
    return kind


@cache
def _writer(kind: type) -> Compiled:
    """Return the function that writes tuples of a class, whose stored code another process can read if it has it."""
    from .references import write

    return Compiled(write, f"{kind.__module__}.{kind.__qualname__}", {"_nrt": False})


def _packed_form(value: Any) -> Packed:
    """Return the memory of *value*: that of an earlier call where it is the same object."""
    found = _kept.get(id(value))
    if found is None:
        found = Packed(value)
        for oldest in list(_kept)[: len(_kept) + 1 - KEPT]:
            _kept.pop(oldest, None)
        _kept[id(value)] = found
    return found
