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
from inspect import signature
from types import ModuleType
from typing import Any, TypeVar

from .codecache import CacheLayers

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA = find_spec("numba") is not None
"""True if Numba is installed. The daemon does not need it; a simulation is a hundred times slower without it."""

_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_SETTINGS = ".numba_config.yaml"  # Numba reads it from the working directory, where any user may have put one


def compiled(function: F) -> F:
    """Compile *function* on its first call if Numba is installed; the result is cached on disk."""
    return _compiled(function)


def inner(function: F) -> F:
    """Compile a function that only compiled ones call, without an entry from Python, where the plain function runs.

    For many array arguments such an entry would double the compile time.
    """
    return _compiled(function, "inner", **_INSIDE)


def borrowing(function: F) -> F:
    """Compile a function as ``inner`` does, without counting references to the arrays of its arguments.

    Counting them took half of the time of loops that pass the whole state of a cluster for each job. The caller keeps
    the arrays: such a function may neither allocate one, which Numba refuses to compile, nor return one or call what
    returns one.
    """
    return _compiled(function, "borrowing", **_INSIDE, _nrt=False)


def entry(function: F) -> F:
    """Compile a function as ``borrowing`` does, and with an entry where Python calls it."""
    return _Entry(function, "entry", {"_nrt": False}) if HAVE_NUMBA else function  # type: ignore[return-value]


def _compiled(function: F, variant: str = "", **flags: bool) -> F:
    return Compiled(function, variant, flags) if HAVE_NUMBA else function  # type: ignore[return-value]


class Compiled:
    """A function that Numba compiles; *flags* are those of ``numba.njit``, and have the name *variant* in the cache."""

    def __init__(self, function: Callable[..., Any], variant: str, flags: dict[str, bool]) -> None:
        update_wrapper(self, function)
        self._function, self._variant, self._flags = function, variant, flags

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of the compiled function, or of the plain one if the former has no entry from Python."""
        function = self._from_python
        return (self._function if function is None else function)(*arguments)  # without an entry Python crashes

    def load(self) -> None:
        """Load the code that is stored, for all types of arguments; nothing is compiled."""
        function = self._from_python
        cache = getattr(function, "_cache", None)
        if isinstance(cache, CacheLayers):
            for signature in cache.stored(function.targetctx):
                function.compile(signature)

    @property
    def _from_python(self) -> Any:
        """Numba's object for calls from Python; None if there is none."""
        return None if "no_cpython_wrapper" in self._flags else self.dispatcher

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for calls from compiled code; the plain function if compiling is switched off."""
        return self._jitted(self._function, self._variant, self._flags)

    def _jitted(self, function: Callable[..., Any], variant: str, flags: dict[str, bool]) -> Any:
        jitted = _numba().njit(function, **({"_nrt": True} | flags))  # else callees inherit it
        if jitted is not function:
            jitted._cache = CacheLayers(self._function, import_module("numba.core.caching"), variant)
        return jitted


class _Entry(Compiled):
    """A function that Python and compiled code call: the one for the latter has no costly entry."""

    @property
    def _from_python(self) -> Any:
        return self._outer

    @cached_property
    def _outer(self) -> Any:
        if self.dispatcher is self._function:
            return self._function
        from .references import refer

        names = ", ".join(signature(self._function).parameters)
        referred = ", ".join(f"_refer({name})" for name in signature(self._function).parameters)
        known: dict[str, Any] = {"__name__": self._function.__module__, "_inside": self, "_refer": refer}
        # Numba compiles a tuple of arguments of different types only if it knows their number.
        exec(f"def {self._function.__name__}({names}):\n    return _inside({referred})\n", known)  # noqa: S102
        return self._jitted(known[self._function.__name__], self._variant, self._flags)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for calls from compiled code."""
        return self._jitted(self._function, "borrowing", self._flags | _INSIDE)


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
