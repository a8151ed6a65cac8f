"""A private PostgreSQL for the whole session, and one store of each kind for the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from new_store import new_store
from postgres_server import Server, new_server

from slurmsched.db.store import Store


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = new_server()
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/slurmsched.db"
    server: Server = request.getfixturevalue("server")
    return server.new_database(like=server.with_tables) if "store" in request.fixturenames else server.new_database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    if url.startswith("sqlite:///"):
        store = new_store(Path(url.removeprefix("sqlite:///")), timeout_s=2.0)
    else:
        store = Store(url, timeout_s=2.0)
    yield store
    store.close()
