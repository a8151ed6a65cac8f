"""Fingerprints of sources: they change with a module and with every module of ours that it imports.

Compiled code contains its callees and global constants, so that it is stale once any of their modules changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

OURS = Path(__file__).resolve().parents[2]
"""The directory that contains the package."""


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
def _digest(file: Path) -> str:
    """Return the digest of *file* at its first reading: modules that are already imported do not change either."""
    return sha256(file.read_bytes()).hexdigest()


@cache
def _imported(file: Path) -> frozenset[Path]:
    try:
        statements = ast.parse(file.read_bytes()).body
    except SyntaxError:  # such a file cannot have been imported
        return frozenset()
    return frozenset(path for statement in _imports(statements) for path in _files(statement, file))


def _imports(statements: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield imports at module level, including those under ``if``, ``try`` and ``with``."""
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        for inside in ("body", "orelse", "handlers", "finalbody") if _has_blocks(statement) else ():
            yield from _imports(getattr(statement, inside, []))


def _has_blocks(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.If, ast.Try, ast.With, ast.ExceptHandler))


def _files(statement: ast.Import | ast.ImportFrom, file: Path) -> Iterator[Path]:
    """Yield the files that an import statement of *file* may refer to; libraries elsewhere are left out."""
    if isinstance(statement, ast.Import):
        modules, bases = [name.name for name in statement.names], _roots(file)
    else:
        start = statement.module or ""
        modules = [start, *(f"{start}.{name.name}" for name in statement.names)]
        bases = [file.parents[statement.level - 1]] if statement.level else _roots(file)
    for place in (base.joinpath(*filter(None, module.split("."))) for base in bases for module in modules):
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _roots(file: Path) -> list[Path]:
    """Return the directories for absolute imports of *file*: the parents of its own package and of ours."""
    own = file.parent
    while (own / "__init__.py").exists():
        own = own.parent
    return list(dict.fromkeys([own, OURS]))
