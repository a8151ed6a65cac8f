"""Compilation of inner loops with Numba if it is installed; otherwise the plain Python functions run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import chdir, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from .codecache import CacheLayers

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA = find_spec("numba") is not None
"""True if Numba is installed. The daemon does not need it; a simulation is a hundred times slower without it."""

_SETTINGS = ".numba_config.yaml"  # Numba reads it from the working directory, where any user may have put one


def compiled(function: F) -> F:
    """Compile *function* on its first call if Numba is installed; the result is cached on disk."""
    return _jit(function)


def inner(function: F) -> F:
    """Compile a function that only compiled ones call, without an entry from Python.

    For many array arguments such an entry would double the compile time.
    """
    return _jit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _jit(function: F, **flags: bool) -> F:
    if not HAVE_NUMBA:
        return function
    jitted: F = _numba().njit(function, **flags)
    if jitted is not function:  # it is the same if compiling is switched off
        jitted._cache = CacheLayers(function, import_module("numba.core.caching"))  # type: ignore[attr-defined]
    return jitted


@cache
def _numba() -> Any:
    """Import Numba without reading settings from the working directory."""
    with chdir("/") if os.path.exists(_SETTINGS) else nullcontext():
        numba = import_module("numba")
    config: Any = import_module("numba.core.config")
    config._config_fname = ""  # it rereads the file at each compilation
    return numba
