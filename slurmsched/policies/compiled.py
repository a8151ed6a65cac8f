"""Compilation of inner loops with Numba if it is installed; otherwise the plain Python functions run.

Numba is imported at the first call: a command that decides nothing starts without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import chdir, nullcontext
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

from .codecache import CacheLayers

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA = find_spec("numba") is not None
"""True if Numba is installed. The daemon does not need it; a simulation is a hundred times slower without it."""

_SETTINGS = ".numba_config.yaml"  # Numba reads it from the working directory, where any user may have put one


def compiled(function: F) -> F:
    """Compile *function* on its first call if Numba is installed; the result is cached on disk."""
    return _compiled(function)


def inner(function: F) -> F:
    """Compile a function that only compiled ones call, without an entry from Python, where the plain function runs.

    For many array arguments such an entry would double the compile time.
    """
    return _compiled(function, "inner", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def borrowing(function: F) -> F:
    """Compile a function as ``inner`` does, without counting references to the arrays of its arguments.

    Counting them took half of the time of loops that pass the whole state of a cluster for each job. The caller keeps
    the arrays: such a function may neither allocate one, which Numba refuses to compile, nor return one or call what
    returns one.
    """
    return _compiled(function, "borrowing", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def _compiled(function: F, variant: str = "", **flags: bool) -> F:
    return Compiled(function, variant, flags) if HAVE_NUMBA else function  # type: ignore[return-value]


class Compiled:
    """A function that Numba compiles; *flags* are those of ``numba.njit``, and have the name *variant* in the cache."""

    def __init__(self, function: Callable[..., Any], variant: str, flags: dict[str, bool]) -> None:
        update_wrapper(self, function)
        self._function, self._variant, self._flags = function, variant, flags

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of the compiled function, or of the plain one if the former has no entry from Python."""
        entry = self._function if "no_cpython_wrapper" in self._flags else self.dispatcher  # without one Python crashes
        return entry(*arguments)

    def load(self) -> None:
        """Load the code that is stored, for all types of arguments; nothing is compiled."""
        cache = getattr(self.dispatcher, "_cache", None)
        if isinstance(cache, CacheLayers) and "no_cpython_wrapper" not in self._flags:
            for signature in cache.stored(self.dispatcher.targetctx):
                self.dispatcher.compile(signature)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for the function; the plain function if compiling is switched off."""
        jitted = _numba().njit(self._function, **({"_nrt": True} | self._flags))  # else callees inherit it
        if jitted is not self._function:
            jitted._cache = CacheLayers(self._function, import_module("numba.core.caching"), self._variant)
        return jitted


def load_stored(modules: Iterable[ModuleType]) -> None:
    """Load the stored code of all functions of *modules* that Python calls."""
    for module in modules:
        for function in vars(module).values():
            if isinstance(function, Compiled) and function.__module__ == module.__name__:
                function.load()


@cache
def _numba() -> Any:
    """Import Numba without reading settings from the working directory."""
    with chdir("/") if os.path.exists(_SETTINGS) else nullcontext():
        numba = import_module("numba")
    config: Any = import_module("numba.core.config")
    config._config_fname = ""  # it rereads the file at each compilation
    typeof: Any = import_module("numba.core.typing.typeof")
    typeof.typeof_impl.register(Compiled)(lambda value, _context: typeof.typeof(value.dispatcher))
    return numba
