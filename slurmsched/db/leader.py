"""Leadership: at most one of several daemons for a cluster controls it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from ..errors import MemoryUnavailable
from .database import Database, create_private
from .store import Store


class Leadership(Protocol):
    """The right to control a cluster; it ends with the process that has it."""

    def acquire(self) -> bool:
        """Take it if it is free; return True if we have it now. ``MemoryUnavailable`` where that cannot be checked."""
        ...

    def held(self) -> bool:
        """Return True if we have it, checked anew on each call; False where that cannot be checked."""
        ...

    def release(self) -> None:
        """Give it up, if we have it."""
        ...


def leadership(store: Store, cluster: str) -> Leadership:
    """Return a lock of the PostgreSQL server, which works across hosts, or a lock file beside an SQLite database."""
    if store.database.postgresql:
        return ServerLeadership(store.database, cluster)
    name = quote(cluster, safe="")
    return FileLeadership(store.path.with_name(f"{store.path.name}.{name}.leader") if store.path else None)


class FileLeadership:
    """A lock on a file, which the kernel frees at the end of the process in any case. Without a file we always lead."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._handle: int | None = None
        self._alone = False

    def acquire(self) -> bool:
        """Take the lock if it is free."""
        if self._path is None:
            self._alone = True
        elif not self.held():
            self.release()
            self._handle = _lock(self._path)
        return self.held()

    def held(self) -> bool:
        """Return True if we have the lock on the present file; another process may have locked a replacement."""
        if self._path is None or self._handle is None:
            return self._alone
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        """Free the lock; the file stays."""
        self._alone = False
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class ServerLeadership:
    """An advisory lock of PostgreSQL on a connection of its own; losing the connection means losing the lock."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._database = database
        digest = hashlib.sha256(f"slurmsched leader of {cluster}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._connection: Connection | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free."""
        if self.held():
            return True
        self.release()
        connection = self._database.connect_alone("taking the leadership")
        try:
            taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": self._key}).scalar_one()
        except DBAPIError as error:
            connection.close()
            raise MemoryUnavailable(f"taking the leadership in {self._database.place}: {error.orig}") from error
        if taken:
            self._connection = connection
        else:
            connection.close()
        return bool(taken)

    def held(self) -> bool:
        """Return True if the server still has our lock; False if it does not answer within the time limit."""
        if self._connection is None:
            return False
        mine = text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND ((classid::bigint << 32) | objid::bigint) = :key AND objsubid = 1"
        )
        try:
            return bool(self._connection.execute(mine, {"key": self._key}).scalar_one())
        except DBAPIError:
            self.release()
            return False

    def release(self) -> None:
        """Close the connection, which frees the lock."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _lock(path: Path) -> int | None:
    create_private(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MemoryUnavailable(f"opening the lock file {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
