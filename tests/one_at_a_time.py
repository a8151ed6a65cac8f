"""Turns of tests that need something that a machine has once, also those of another checkout."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_at_a_time(thing: str) -> Iterator[None]:
    """Wait until no other test of this user has *thing*."""
    with open(f"/tmp/slurmsched-tests.{os.geteuid()}.{thing}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
