"""The directory of a lab: made for it alone, reachable by its users, and used by one command at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurmsched.errors import LabError
from slurmsched.lab import waiting
from slurmsched.lab.layout import Layout

LOCK_S = 120.0


@contextmanager
def new_directory(layout: Layout) -> Iterator[None]:
    """Create the directory, or use an empty one, writable only by us; lock it meanwhile."""
    directory = layout.directory
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locked(directory):
        if layout.manifest.exists():
            raise LabError(f"there is a lab at {directory} already; `slurmsched lab down` removes it")
        if (owner := directory.stat().st_uid) != os.geteuid():
            raise LabError(f"{directory} belongs to user {owner}: choose another")
        if any(directory.iterdir()):
            raise LabError(f"{directory} is not empty, and `down` would remove it all: choose another")
        directory.chmod(0o755)
        yield


def check_reachable(directory: Path) -> None:
    """Check that the lab's users and MariaDB can reach the directory."""
    for parent in directory.parents:
        if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
            raise LabError(f"the lab's users could not reach {directory}: {parent} is closed to others")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the lab against other commands; the kernel releases the lock of a dead process."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LabError(f"there is no lab at {directory}: {error.strerror}") from error
    try:
        waiting.wait_until(lambda: _lock(handle), LOCK_S, f"another command on the lab at {directory} to end")
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
