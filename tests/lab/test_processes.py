"""Which processes are a lab's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmsched.lab.processes import belonging
from slurmsched.lab.waiting import wait_until

UID = 54321
"""Nobody's."""

SLEEPER = ("setpriv", f"--reuid={UID}", "--clear-groups", "sleep", "60")


@contextmanager
def running(*argv: str) -> Iterator[int]:
    process = subprocess.Popen(argv)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def owned() -> int:
    """How many processes the uid has, in whatever container."""
    return len(subprocess.run(["ps", "-o", "pid=", "-u", str(UID)], capture_output=True, text=True).stdout.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of another uid need root")
def test_a_uid_means_a_user_of_this_host_and_nobody_in_a_container(tmp_path: Path):
    contained = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run([*contained, "true"], capture_output=True).returncode:
        pytest.skip("this kernel lets nobody make a namespace of process ids")
    # The first process in there has to stay root's: one that changes its uid no longer ends with its parent.
    with running(*contained, "sh", "-c", f"{' '.join(SLEEPER)}; true"), running(*SLEEPER) as ours:
        wait_until(lambda: owned() == 2, 120.0, "both sleepers")
        assert {process.pid for process in belonging((), {UID}, tmp_path)} == {ours}
