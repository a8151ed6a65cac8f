"""Check the integrity of the database: the definitions of the tables, and the pages of an SQLite file."""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import MemoryUnavailable, SchemaMismatch
from . import schema
from .database import Database, is_damage
from .tables import metadata

logger = logging.getLogger(__name__)

LIMIT_S = 600.0
"""The longest read of a file's pages, in seconds: a reader prevents a reset of the write-ahead log."""

_STEPS = 10_000  #: of SQLite's virtual machine between two checks of the time

_NO_MATTER = ("remove_table", "remove_index")  #: foreign tables and indexes are harmless


def find_damage(database: Database, *, thorough: bool, limit_s: float = LIMIT_S) -> str:
    """Describe damage to the tables and, if *thorough*, to the pages of an SQLite file; empty for none.

    Raises ``MemoryUnavailable`` where the database is away.
    """
    if damage := _damage_of_tables(database):
        return damage
    return _damage_of_file(database.path, limit_s) if thorough and database.path is not None else ""


def _damage_of_tables(database: Database) -> str:
    from alembic.autogenerate import compare_metadata  # slow to import, and few commands look for damage
    from alembic.runtime.migration import MigrationContext

    try:
        with database.inspection() as connection:
            context = MigrationContext.configure(
                connection, opts={"compare_type": True, "version_table": schema.VERSION_TABLE}
            )
            changes = [_in_words(change) for change in compare_metadata(context, metadata)]
            schema.check_version(connection, database.place)
    except SchemaMismatch as error:
        return str(error)
    found = "; ".join(filter(None, changes))
    return f"the tables are not as slurmsched made them: {found}" if found else ""


def _in_words(change: Any) -> str:
    """Describe one difference that Alembic found between the actual tables and the expected ones."""
    if isinstance(change, list):  # all differences of one column
        return "; ".join(filter(None, map(_in_words, change)))
    kind, *rest = change
    if kind in _NO_MATTER:
        return ""
    if kind == "add_table":
        return f"{rest[0].name} is missing"
    if kind == "add_index":
        return f"index {rest[0].name} is missing"
    if kind in ("add_column", "remove_column"):
        return f"{rest[1]} {'lacks the' if kind == 'add_column' else 'has a strange'} column {rest[2].name}"
    return f"{rest[1]}.{rest[2]} has another type"


def _damage_of_file(path: Path, limit_s: float) -> str:
    """Describe damage that SQLite finds on the file's pages, read anew; empty also if *limit_s* was too short."""
    until_s = time.monotonic() + limit_s
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > until_s, _STEPS)
            ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            logger.warning("%s was not read to its end in %g s: part of it was not checked", path, limit_s)
            return ""
        if is_damage(error):
            return f"the file is damaged: {error}"
        raise MemoryUnavailable(f"inspecting {path}: {error}") from error
    return "" if found == "ok" else f"the file is damaged: {found}"
