"""Fingerprints of sources: they change with a module and with every module of ours that it imports.

Compiled code has its callees and its global constants inside, so that it is as old as the oldest of their modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

OURS = Path(__file__).resolve().parents[2]
"""The directory that has the package."""


@cache
def fingerprint(source: Path) -> str:
    """Sixteen hexadecimal digits for *source* and all that it imports, directly or not."""
    digests = sorted({_digest(file) for file in closure(source)})
    return sha256("".join(digests).encode()).hexdigest()[:16]


def closure(source: Path) -> set[Path]:
    """The file *source* and those it imports, directly or not, of its own package or of ours."""
    found, waiting = {source}, [source]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _digest(file: Path) -> str:
    """Digest of *file* as this process first saw it: what it has imported since does not change either."""
    return sha256(file.read_bytes()).hexdigest()


@cache
def _imported(file: Path) -> frozenset[Path]:
    try:
        statements = ast.parse(file.read_bytes()).body
    except SyntaxError:  # nobody has imported it then
        return frozenset()
    return frozenset(path for statement in _imports(statements) for path in _files(statement, file))


def _imports(statements: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports at the level of the module; those under ``if`` and ``try`` too."""
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        for inside in ("body", "orelse", "handlers", "finalbody") if _has_blocks(statement) else ():
            yield from _imports(getattr(statement, inside, []))


def _has_blocks(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.If, ast.Try, ast.With, ast.ExceptHandler))


def _files(statement: ast.Import | ast.ImportFrom, file: Path) -> Iterator[Path]:
    """The files that a statement of *file* may mean; what lies elsewhere, such as a library, is left out."""
    if isinstance(statement, ast.Import):
        modules, bases = [name.name for name in statement.names], _roots(file)
    else:
        start = statement.module or ""
        modules = [start, *(f"{start}.{name.name}" for name in statement.names)]
        bases = [file.parents[statement.level - 1]] if statement.level else _roots(file)
    for place in (base.joinpath(*filter(None, module.split("."))) for base in bases for module in modules):
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _roots(file: Path) -> list[Path]:
    """Where absolute imports of *file* are looked up: above its own package, and above ours."""
    own = file.parent
    while (own / "__init__.py").exists():
        own = own.parent
    return list(dict.fromkeys([own, OURS]))
