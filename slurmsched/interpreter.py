"""Safe starts of Python child processes: nothing is imported from the caller's directory, which any user may own."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = "/"
"""The working directory of every child process; only root can write there."""

_SAFE = "PYTHONSAFEPATH"  # as -P, for interpreters that a library starts
_PATH = "PYTHONPATH"
_SOURCES = str(Path(__file__).resolve().parents[1])


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line of one of our modules; start it in DIRECTORY with ``environment``."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return *base* with a PYTHONPATH to this package and without paths relative to the working directory."""
    return dict(base) | {_PATH: os.pathsep.join([_SOURCES, *_absolute(base)])}


@contextmanager
def safe_children() -> Iterator[None]:
    """Set the same safety for interpreters that a library starts, since it builds their command lines itself."""
    before = {name: os.environ.get(name) for name in (_SAFE, _PATH)}
    os.environ[_SAFE] = "1"
    if before[_PATH] is not None:
        os.environ[_PATH] = os.pathsep.join(_absolute(os.environ))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def limit_blas_threads() -> None:
    """Let linear algebra use one thread, unless the environment has another number; call it before numpy is imported.

    The matrices of this package are small, and on a busy machine threads wait far longer for each other than they work.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def collect_garbage_rarely() -> None:
    """Look for unreachable objects after ten thousand new ones, not after 700; call it before most imports.

    Modules make many objects and no garbage: the usual threshold costs a tenth of the time that a command takes.
    """
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


def forget_directory() -> None:
    """Stop imports from the directory where ``python -m`` was called, unless this package lies there itself."""
    if not sys.flags.safe_path and sys.path[0] != _SOURCES:
        del sys.path[0]


def _absolute(environment: Mapping[str, str]) -> list[str]:
    return [place for place in environment.get(_PATH, "").split(os.pathsep) if os.path.isabs(place)]
