"""A host that never had slurmsched, for the tests of its installation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fresh_host import NoHost
from newcomer import Site, site
from one_at_a_time import one_at_a_time


@pytest.fixture(scope="module")
def a_site() -> Iterator[Site]:
    """A host with a Slurm and a checkout; each test takes away what it installed.

    One at a time on this machine: the pages say on which port the daemon serves metrics. A file has it for its own
    tests alone: another one, in another process, would wait for the end of all tests of this process.
    """
    try:
        with one_at_a_time("install"), site() as found:
            yield found
    except NoHost as reason:
        pytest.skip(str(reason))
