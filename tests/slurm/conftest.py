"""A lab with limits, licences, fair share and three partitions, for the tests that need a site."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zoo

from slurmsched.errors import LabError
from slurmsched.lab import Lab, programs


@pytest.fixture(scope="session")
def site_of_the_session() -> Iterator[Lab]:
    try:
        programs.check(zoo.SPEC)
    except LabError as error:
        pytest.skip(str(error))
    with Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), zoo.SPEC) as lab:
        for account, shares in (("astro", 1000), ("bio", 1)):
            lab.ask(["sacctmgr", "-i", "modify", "account", account, "set", f"fairshare={shares}"])
        yield lab


@pytest.fixture
def site(site_of_the_session: Lab) -> Iterator[Lab]:
    """4 nodes of 4 GPUs; its queue is empty, its limits are lifted after each test."""
    yield site_of_the_session
    zoo.lift_limits(site_of_the_session)
