"""The version of the tables: upgraded by the package itself, refused where it is newer, or older than the first."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ..errors import ConfigError, MemoryUnavailable, SchemaMismatch
from .database import Database, create_private

UPGRADES = Path(__file__).parent / "upgrades"

#: The table that holds the version.
VERSION_TABLE = "slurmsched_version"

#: The table that held it before the first release, whose tables nothing reads.
_UNRELEASED = "alembic_version"

#: Advisory lock that serialises upgrades of one PostgreSQL database by several daemons.
_UPGRADE_LOCK = 7_305_808_869_229_538


def check(database: Database, scripts: Path = UPGRADES) -> None:
    """Raise ``SchemaMismatch`` unless the tables are of this program's version, ``MemoryUnavailable`` for no file."""
    if database.path is not None and not os.path.exists(database.path):  # or a directory is not readable
        raise MemoryUnavailable(
            f"there is no database {database.place} that this user may see; "
            "the daemon makes it, or 'slurmsched db upgrade'"
        )
    with database.transaction("reading the version of the tables") as connection:
        check_version(connection, database.place, scripts)


def check_version(connection: Connection, place: str, scripts: Path = UPGRADES) -> None:
    """Raise ``SchemaMismatch`` unless the tables of *place* are of this program's version."""
    current, versions = _current(connection, place), _versions(scripts)
    if current == versions[-1]:
        return
    _refuse_unknown(current, versions, place)
    raise SchemaMismatch(
        f"the tables in {place} have version {current or 'none'}, this slurmsched needs {versions[-1]}: "
        "run 'slurmsched db upgrade'"
    )


def upgrade(database: Database, scripts: Path = UPGRADES) -> str:
    """Upgrade the tables to this program's version, in one transaction; return that version.

    Raises ``SchemaMismatch`` for unknown versions, whose tables it leaves untouched. An SQLite file with older
    tables is first copied to ``NAME.before-VERSION`` in its directory.
    """
    database.create_file()
    versions = _versions(scripts)
    wanted = versions[-1]
    with database.transaction("reading the version of the tables") as connection:
        current = _current(connection, database.place)
        _demand_utf8(connection)
    if current == wanted:
        return wanted
    _refuse_unknown(current, versions, database.place)
    if database.path is not None:
        _use_wal(database.path, database.timeout_s)
        if current is not None:
            _copy(database.path, database.path.with_name(f"{database.path.name}.before-{wanted}"))
    doing = f"upgrading the tables to version {wanted}"
    with database.transaction(doing, write=True) as connection, database.unhurried(connection):
        if database.postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
        _upgrade(connection, scripts)
    return wanted


def version(database: Database) -> str | None:
    """Return the version of the tables; None where there are none, ``SchemaMismatch`` for unreleased ones."""
    with database.transaction("reading the version of the tables") as connection:
        return _current(connection, database.place)


def _versions(scripts: Path) -> list[str]:
    """Return the versions that this program knows, by the names of the upgrades; the newest one is last."""
    return sorted(file.name[1:5] for file in (scripts / "versions").glob("v*.py"))


def _current(connection: Connection, place: str) -> str | None:
    tables = inspect(connection)
    if tables.has_table(VERSION_TABLE):
        found: str | None = connection.execute(text("SELECT version_num FROM slurmsched_version")).scalar()
        return found
    if tables.has_table(_UNRELEASED):
        raise SchemaMismatch(
            f"the tables in {place} were made before the first release of slurmsched, which leaves them untouched: "
            "move the file away or set another database.url, then fetch the runs again with 'slurmsched history import'"
        )
    return None


def _refuse_unknown(current: str | None, versions: list[str], place: str) -> None:
    if current is not None and current not in versions:
        raise SchemaMismatch(
            f"the tables in {place} have version {current}, this slurmsched knows up to {versions[-1]}: "
            "install the newer slurmsched that wrote them, or restore the copy made before its upgrade"
        )


def _upgrade(connection: Connection, scripts: Path) -> None:
    from alembic import command  # rarely needed, and slow to import
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _demand_utf8(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise ConfigError(f"the PostgreSQL database has encoding {encoding}; create it with ENCODING 'UTF8'")


def _use_wal(path: Path, timeout_s: float) -> None:
    """Set the WAL mode, in which readers never wait for the writer; the file itself stores the mode."""
    try:
        with closing(sqlite3.connect(path, timeout=timeout_s)) as connection:
            connection.execute("PRAGMA journal_mode=WAL").close()
    except sqlite3.Error as error:
        raise MemoryUnavailable(f"setting {path} to WAL: {error}") from error


def _copy(path: Path, copy: Path) -> None:
    try:
        create_private(copy)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise MemoryUnavailable(f"copying {path} to {copy} before an upgrade: {error}") from error
