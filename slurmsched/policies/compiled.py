"""Compiling of inner loops: the same Python function with Numba where it is installed, without it where not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA = find_spec("numba") is not None
"""The daemon needs none of it; a simulation is a hundred times slower without."""


def compiled(function: F) -> F:
    """*function*, compiled on its first call where Numba is installed; the result is kept on disk."""
    return _jit(function)


def inner(function: F) -> F:
    """The same for a function that only compiled ones call: compiling its way in from Python would cost as much again
    where it takes many arrays."""
    return _jit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _jit(function: F, **flags: bool) -> F:
    if not HAVE_NUMBA:
        return function
    numba: Any = import_module("numba")
    try:
        jitted: F = numba.njit(cache=True, **flags)(function)
    except RuntimeError:  # no directory to keep it in: neither beside the source nor in the user's home
        jitted = numba.njit(function, **flags)
    return jitted
