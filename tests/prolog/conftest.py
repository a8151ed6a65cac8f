"""A scripted NVML for the whole session, and a node for each test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_worlds import Node


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a libnvidia-ml.so.1 that follows a script; see nvml.c."""
    pytest.importorskip("pynvml", reason="pynvml is not installed")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the scripted NVML with")
    directory = tmp_path_factory.mktemp("nvml")
    library = directory / "libnvidia-ml.so.1"
    source = Path(__file__).parent / "nvml.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return directory


@pytest.fixture
def node(tmp_path: Path, nvml: Path) -> Iterator[Node]:
    node = Node(tmp_path, nvml)
    yield node
    node.stop_all()
