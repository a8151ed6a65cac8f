"""Connections to SQLite or PostgreSQL: addresses, time limits, transactions, errors as our own exceptions."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool, StaticPool

from ..clock import Timer
from ..errors import ConfigError, MemoryUnavailable, MissingExtra

#: The server itself ends a statement after ``timeout_s``; this much later the client gives up.
SPARE_S = 0.5

_ACCEPTED = "sqlite:////path/to/file.db or postgresql://user@host/database"


def database_url(url: str, state_dir: str) -> str:
    """Return the address to open: *url*, or the SQLite file in *state_dir* where it is empty."""
    return url or f"sqlite:///{Path(state_dir).absolute() / 'slurmsched.db'}"


class Database:
    """A database; a transaction either happens as a whole or raises ``MemoryUnavailable``.

    It must answer within *timeout_s*, plus half a second in which a server may give up first. After no answer at all
    it is not used for twice that time, so that an outage costs all callers together one wait.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._silence = Timer(time.monotonic)
        self.url = _parse(url)
        self.postgresql = self.url.get_backend_name() == "postgresql"
        #: A description of damage that prevents all reads and writes; empty for none. See ``integrity``.
        self.damage = ""
        self._file = (0, 0)  # inode and size of the file when it was last used
        self._looking = Lock()
        #: The address for messages, without the password.
        self.place = self.url.render_as_string(hide_password=True)
        self._engine = self._postgresql_engine() if self.postgresql else self._sqlite_engine()

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database; None for PostgreSQL and for one in memory."""
        name = self.url.database
        return None if self.postgresql or not name or name == ":memory:" else Path(name)

    @contextmanager
    def transaction(self, doing: str, *, write: bool = False) -> Iterator[Connection]:
        """Open a transaction; *doing* names it in error messages. Writers queue for SQLite's one lock at the start.

        Raises ``MemoryUnavailable`` for a damaged database, without touching it.
        """
        self._notice_loss()
        if self.damage:
            raise MemoryUnavailable(f"{doing} in {self.place}: {self.damage}")
        self._demand_answers(doing)
        with self._transaction(self._engine, doing, write) as connection:
            yield connection

    def whole(self) -> None:
        """Allow use of the database again, after an inspection found no damage."""
        self.damage, self._file = "", (0, 0)

    def _notice_loss(self) -> None:
        """Mark a file that has shrunk as damaged: SQLite itself goes on until it needs one of the missing pages."""
        if self.path is None:
            return
        with self._looking:
            (inode, before_b), self._file = self._file, _inode_and_size(self.path)
            if inode == self._file[0] and self._file[1] < before_b:
                self.damage = self.damage or f"the file has shrunk from {before_b} to {self._file[1]} bytes"

    @contextmanager
    def inspection(self) -> Iterator[Connection]:
        """Open a read transaction, also on a damaged database; of an SQLite file it reads the present content."""
        engine = self._engine
        if self.path is not None:
            engine = create_engine(self.url, creator=self._sqlite_connection, hide_parameters=True, poolclass=NullPool)
        with self._transaction(engine, "inspecting the tables", False) as connection:
            yield connection

    @contextmanager
    def unhurried(self, connection: Connection) -> Iterator[None]:
        """Lift the time limit of statements, for an upgrade."""
        if not self.postgresql:
            yield
            return
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        raw: Any = connection.connection.driver_connection
        limit_s, raw.limit_s = raw.limit_s, math.inf
        try:
            yield
        finally:
            raw.limit_s = limit_s

    @contextmanager
    def _transaction(self, engine: Engine, doing: str, write: bool) -> Iterator[Connection]:
        try:
            with engine.connect().execution_options(slurmsched_write=write) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise self._failure(doing, error) from error
        except PoolTimeoutError as error:
            raise MemoryUnavailable(f"{doing} in {self.place}: no free connection in {self.timeout_s} s") from error

    def connect_alone(self, doing: str) -> Connection:
        """Open a connection outside the pool that commits each statement; the caller closes it."""
        self._demand_answers(doing)
        try:
            return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        except DBAPIError as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: DBAPIError) -> MemoryUnavailable:
        """Return the exception for *error*; a file that SQLite finds corrupt is marked as damaged."""
        if is_damage(error.orig):
            self.damage = self.damage or f"the file is damaged: {error.orig}"
        return MemoryUnavailable(f"{doing} in {self.place}: {str(error.orig).strip()}")

    def _demand_answers(self, doing: str) -> None:
        if not self._silence.due:
            raise MemoryUnavailable(f"{doing} in {self.place}: it gave no answer a moment ago")

    def create_file(self) -> None:
        """Create an empty SQLite file that only its owner can read, unless it exists.

        A file created by root belongs to the owner of its directory, so that the daemon's user can open it too.
        """
        if self.path is not None:
            create_private(self.path)

    def close(self) -> None:
        """Close all idle connections."""
        self._engine.dispose()

    def _sqlite_engine(self) -> Engine:
        path, timeout_s = self.path, self.timeout_s
        pool: dict[str, Any] = {"poolclass": StaticPool}
        if path:
            pool = {"poolclass": QueuePool, "pool_size": 2, "max_overflow": 4, "pool_timeout": timeout_s}
        engine = create_engine(self.url, creator=self._sqlite_connection, hide_parameters=True, **pool)
        event.listen(engine, "begin", _begin)
        if path:
            _follow_the_file(engine, path)
        return engine

    def _sqlite_connection(self) -> sqlite3.Connection:
        path = self.path
        # mode=rw: a missing file is an error; SQLite must not create an empty one.
        name = f"file:{quote(str(path))}?mode=rw" if path else ":memory:"
        return sqlite3.connect(
            name, uri=path is not None, timeout=self.timeout_s, isolation_level=None, check_same_thread=False
        )

    def _postgresql_engine(self) -> Engine:
        limit_ms = math.ceil(self.timeout_s * 1000)
        arguments: dict[str, Any] = {
            "connect_timeout": max(2, math.ceil(self.timeout_s)),  # the minimum of libpq
            "client_encoding": "utf8",
            "application_name": "slurmsched",
            "tcp_user_timeout": limit_ms,
            "options": f"-c statement_timeout={limit_ms} -c lock_timeout={limit_ms} -c timezone=UTC",
        }
        try:
            from . import postgres_connection

            engine = create_engine(
                self.url,
                connect_args=arguments,
                hide_parameters=True,
                pool_pre_ping=True,
                pool_size=2,
                max_overflow=4,
                pool_timeout=self.timeout_s,
            )
        except ModuleNotFoundError as error:
            raise MissingExtra(f"{self.place} needs psycopg", "postgres") from error

        def connect(dialect: object, entry: object, cargs: Sequence[Any], cparams: Mapping[str, Any]) -> Any:
            return postgres_connection.connect(self.timeout_s + SPARE_S, self._fell_silent, *cargs, **cparams)

        event.listen(engine, "do_connect", connect)
        return engine

    def _fell_silent(self) -> None:
        self._silence.put_off(2 * self.timeout_s)


def _inode_and_size(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_size


def is_damage(error: BaseException | None) -> bool:
    """Return True if *error* of SQLite means that the content of the file is corrupt."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def create_private(path: Path) -> None:
    """Create an empty file of mode 0600, if root for the owner of its directory; keep an existing one."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise MemoryUnavailable(f"creating {path}: {error.strerror}") from error
    try:
        if os.geteuid() == 0:
            home = os.stat(path.parent)
            os.fchown(handle, home.st_uid, home.st_gid)
    finally:
        os.close(handle)


def insert_or(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    replace: Iterable[str] = (),
    add: Iterable[str] = (),
    growing: str = "",
) -> None:
    """Insert *rows*; of an existing key set the *replace* columns, and add to those of *add*; without both leave it.

    With the name of a *growing* column, a row is replaced only by one that has a greater value there.
    """
    if not rows:
        return
    key = [column.name for column in table.primary_key]
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # each takes long to read, and a site has one of them
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    into = insert(table)
    changes: dict[str, Any] = {name: into.excluded[name] for name in replace}
    changes |= {name: table.c[name] + into.excluded[name] for name in add}
    if changes:
        grows = into.excluded[growing] > table.c[growing] if growing else None
        connection.execute(into.on_conflict_do_update(index_elements=key, set_=changes, where=grows), list(rows))
    else:
        connection.execute(into.on_conflict_do_nothing(index_elements=key), list(rows))


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        # The message omits the address, which may hold a password.
        raise ConfigError(f"database.url is no address of a database; write {_ACCEPTED}") from error
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite":
        return parsed
    raise ConfigError(f"database.url begins with {parsed.drivername!r}; write {_ACCEPTED}")


def _begin(connection: Connection) -> None:
    # A reader that becomes a writer would fail at once while another writes; a declared writer waits for its turn.
    write = connection.get_execution_options().get("slurmsched_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _follow_the_file(engine: Engine, path: Path) -> None:
    """Drop connections to a file that was moved or replaced, where all writes would be lost."""

    def identity() -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @event.listens_for(engine, "connect")
    def opened(connection: sqlite3.Connection, entry: ConnectionPoolEntry) -> None:
        entry.info["file"] = identity()
        # The log survives a killed process; a power failure can only cost the latest writes, never the file.
        connection.execute("PRAGMA synchronous=NORMAL").close()

    @event.listens_for(engine, "checkout")
    def on_checkout(connection: sqlite3.Connection, entry: ConnectionPoolEntry, proxy: object) -> None:
        if entry.info["file"] != identity():
            raise DisconnectionError("the file is another one now")
