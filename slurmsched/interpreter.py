"""Safe starts of Python: the directory of the caller, which may be any user's, is no place to import from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = "/"
"""Where every child works: a directory that root alone can write."""

_SAFE = "PYTHONSAFEPATH"  # as -P, for interpreters that a library starts
_PATH = "PYTHONPATH"
_SOURCES = str(Path(__file__).resolve().parents[1])


def command(module: str, *arguments: str) -> list[str]:
    """The command line of one of our modules; it takes the environment below and works in DIRECTORY."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """*base*, in which a child finds this package where it is now, and nothing relative to where it works."""
    return dict(base) | {_PATH: os.pathsep.join([_SOURCES, *_absolute(base)])}


@contextmanager
def safe_children() -> Iterator[None]:
    """Interpreters that a library of ours starts inside are as safe: it writes their command lines itself."""
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


def forget_directory() -> None:
    """Import nothing more from where ``python -m`` was called, unless this package lies there itself."""
    if not sys.flags.safe_path and sys.path[0] != _SOURCES:
        del sys.path[0]


def _absolute(environment: Mapping[str, str]) -> list[str]:
    return [place for place in environment.get(_PATH, "").split(os.pathsep) if os.path.isabs(place)]
