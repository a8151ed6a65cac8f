"""What tests of many cycles share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from new_store import new_store

from slurmsched.db.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A database in a file of its own."""
    made = new_store(tmp_path / "a.db")
    yield made
    made.close()
