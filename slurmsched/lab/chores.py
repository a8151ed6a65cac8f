"""Short programs that change the machine, such as useradd and mount."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence

from slurmsched.errors import LabError

#: marks a chore; ``down`` after a crash waits for one where it would kill a daemon, since
#: a useradd ended half-way leaves locks behind
MARK = "SLURMSCHED_LAB_CHORE"
TIMEOUT_S = 60.0
#: another lab holds the lock of /etc/passwd, for which useradd and userdel wait a few seconds by themselves
BUSY = re.compile("cannot lock|try again later")


def do(argv: Sequence[str], lab_id: str) -> None:
    """Run *argv*, again where another process is in the way; `LabError` with its output when it fails."""
    end_s = time.monotonic() + TIMEOUT_S
    while message := _do(argv, os.environ | {MARK: lab_id}):
        if not BUSY.search(message) or time.monotonic() > end_s:
            raise LabError(f"{' '.join(argv)} failed: {message}")
        time.sleep(0.2)


def _do(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the error output; empty for success. An interrupt leaves it running, for ``down`` to wait for."""
    try:
        with subprocess.Popen(
            argv,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                message = process.communicate(timeout=TIMEOUT_S)[1].strip()
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (message or f"exit {process.returncode}") if process.returncode else ""
