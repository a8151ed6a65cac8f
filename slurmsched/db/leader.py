"""Leadership: of several daemons for one cluster at most one steers it."""

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
    """The right to steer a cluster; it ends with the process that has it."""

    def acquire(self) -> bool:
        """Take it if nobody has it; whether we have it now. ``MemoryUnavailable`` where that cannot be known."""
        ...

    def held(self) -> bool:
        """Whether we have it, asked anew each time; false where that cannot be known."""
        ...

    def release(self) -> None:
        """Give it up, if we have it."""
        ...


def leadership(store: Store, cluster: str) -> Leadership:
    """A lock of the server where it is PostgreSQL, so that hosts compete; else a lock file beside the database."""
    if store.database.postgresql:
        return ServerLeadership(store.database, cluster)
    name = quote(cluster, safe="")
    return FileLeadership(store.path.with_name(f"{store.path.name}.{name}.leader") if store.path else None)


class FileLeadership:
    """A lock on a file; the kernel frees it when the process ends, however it ends. Without a file we always lead."""

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
        """Whether we have the lock on the file that is there now; one that was replaced may be locked by another."""
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
    """An advisory lock of PostgreSQL on a connection of its own: who loses the connection loses the lock."""

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
        """Whether the server still knows our lock; false if it does not answer within the time limit."""
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
        """Close the connection, and the lock with it."""
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
