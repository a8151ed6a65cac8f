"""Compiling of inner loops: the same Python function with Numba where it is installed, without it where not."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import chdir, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from . import codecache

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA = find_spec("numba") is not None
"""The daemon needs none of it; a simulation is a hundred times slower without."""

_SETTINGS = ".numba_config.yaml"  # Numba obeys one in the working directory, whoever put it there


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
    jitted: F = _numba().njit(function, **flags)
    if jitted is not function:  # where compiling is switched off it is
        jitted._cache = codecache.layers(function, import_module("numba.core.caching"))  # type: ignore[attr-defined]
    return jitted


@cache
def _numba() -> Any:
    """Numba, without the settings that lie where we are called."""
    with chdir("/") if os.path.exists(_SETTINGS) else nullcontext():
        numba = import_module("numba")
    config: Any = import_module("numba.core.config")
    config._config_fname = ""  # it looks again whenever it compiles
    return numba
