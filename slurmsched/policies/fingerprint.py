"""Fingerprints of sources: they change with a module and with every module of ours that it imports.

Compiled code contains its callees and global constants, so that it is stale once any of their modules changes.
"""

from __future__ import annotations

import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

OURS = Path(__file__).resolve().parents[2]
"""The directory that contains the package."""

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*|[^\n]*)|import[ \t]+([^\n]*))", re.M)
_NOISE = re.compile(r"[()\\]|#[^\n]*")  #: brackets, continued lines and comments among imported names


@cache
def fingerprint(source: Path) -> str:
    """Return sixteen hexadecimal digits for *source* and all its direct and indirect imports."""
    digests = sorted({_digest(file) for file in closure(source)})
    return sha256("".join(digests).encode()).hexdigest()[:16]


def closure(source: Path) -> set[Path]:
    """Return *source* and the files it imports, directly or indirectly, from its own package or ours."""
    found, waiting = {source}, [source]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def unchanged_since(source: Path, began_s: float) -> bool:
    """Return whether *source* and its imports are on disk as a process read them that began at *began_s*.

    They may not be where a new version was installed since. Interactive code has no file at all.
    """
    try:
        return all(file.stat().st_ctime < began_s for file in closure(source))
    except OSError:
        return False


@cache
def _digest(file: Path) -> str:
    """Return the digest of *file* at its first reading: that of the imported module, if ``unchanged_since``."""
    return sha256(file.read_bytes()).hexdigest()


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the files that *file* may import: those of import statements, and of text that looks like one.

    A file too many only leads to compiling more often; parsing the sources would take longer than loading the code.
    """
    bases = _roots(file.parent)
    found: set[str] = set()
    for level, start, names, plain in _IMPORT.findall(file.read_text()):
        modules = [name.split()[0] for name in _NOISE.sub("", names or plain).split(",") if name.strip()]
        if names:
            modules = [start, *(f"{start}.{name}" for name in modules)]
        for base in [str(file.parents[len(level) - 1])] if level else bases:
            found.update(path for module in modules for path in _files(base, module))
    return frozenset(map(Path, found))


def _files(base: str, module: str) -> list[str]:
    """Return the file of a module or package in the directory *base*; none for a library elsewhere."""
    path = os.path.join(base, *filter(None, module.split(".")))
    return [each for each in (f"{path}.py", f"{path}/__init__.py") if os.path.isfile(each)]


@cache
def _roots(directory: Path) -> list[str]:
    """Return the directories for absolute imports in *directory*: the parents of its own package and of ours."""
    own = directory
    while (own / "__init__.py").exists():
        own = own.parent
    return list(dict.fromkeys([str(own), str(OURS)]))
