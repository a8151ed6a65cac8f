"""Databases in new files, whose tables are made once by a process of tests and copied then."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slurmsched.db.store import Store


def new_store(path: Path, **options: Any) -> Store:
    """Return a store in the new file *path*, with its tables as ``upgrade`` makes them."""
    path.touch(0o600, exist_ok=False)
    path.write_bytes(_new_file())
    return Store(f"sqlite:///{path}", **options)


def new_memory_store() -> Store:
    """Return a store in memory, with its tables as ``upgrade`` makes them."""
    store, file = Store("sqlite://"), _new_file()
    connection = store.database._engine.raw_connection()
    without_wal = b"\1\1"  # which a database in memory cannot have
    connection.driver_connection.deserialize(file[:18] + without_wal + file[20:])  # type: ignore[union-attr]
    connection.close()
    return store


@cache
def _new_file() -> bytes:
    with TemporaryDirectory() as directory:
        path = Path(directory, "new.db")
        store = Store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        return path.read_bytes()
