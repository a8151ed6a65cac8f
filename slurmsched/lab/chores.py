"""Short programs that change the machine: useradd, mount and their like."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from slurmsched.errors import LabError

#: marks a chore; ``down`` after a crash waits for one where it would kill a daemon, since
#: a useradd ended half-way leaves locks behind
MARK = "SLURMSCHED_LAB_CHORE"
#: another lab may hold the lock of /etc/passwd meanwhile
TIMEOUT_S = 60.0


def do(argv: Sequence[str], lab_id: str) -> None:
    """Run *argv* to its end; `LabError` with what it said when it failed."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=TIMEOUT_S, env=os.environ | {MARK: lab_id}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{' '.join(argv)} failed: {error}") from error
    if done.returncode:
        raise LabError(f"{' '.join(argv)} failed: {done.stderr.strip() or f'exit {done.returncode}'}")
