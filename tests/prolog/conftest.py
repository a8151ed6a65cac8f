"""A scripted NVML for the whole session, and a node for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_worlds import Node, scripted_nvml


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a libnvidia-ml.so.1 that follows a script; see nvml.c."""
    directory = tmp_path_factory.mktemp("nvml")
    scripted_nvml(directory)
    return directory


@pytest.fixture
def node(tmp_path: Path, nvml: Path) -> Iterator[Node]:
    node = Node(tmp_path, nvml)
    yield node
    node.stop_all()
