"""What the scenarios share: a site on the lab of the session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab_site import Site

from slurmsched.lab import Lab

if TYPE_CHECKING:
    from postgres_server import Server

# The private PostgreSQL of the database's own tests, the scripted NVML of those for nodes, the daemon's certificates.
sys.path += [str(Path(__file__).parent.parent / name) for name in ("db", "prolog", "daemon")]


@pytest.fixture
def new_site(lab: Lab) -> Iterator[Callable[..., Site]]:
    """Makes sites with settings of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    made: list[Site] = []

    def new(user: str = "operator", **sections: str) -> Site:
        made.append(Site.of(lab, user, **sections))
        return made[-1]

    yield new
    for site in made:
        shutil.rmtree(site.directory)


@pytest.fixture
def site(new_site: Callable[..., Site]) -> Site:
    """Acts by sjf over the whole queue, once a second, as the operator."""
    return new_site()


@pytest.fixture
def server() -> Iterator[Server]:
    """A private PostgreSQL, which the operator may use too."""
    from postgres_server import new_server

    server = new_server()
    server.home.chmod(0o711)
    server.start()
    yield server
    server.remove()
