"""Our prolog and epilog on the nodes of a lab, with a scripted NVML and a collector on this machine."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from node_worlds import PROGRAMS, patient_path

from slurmsched.lab import Lab

#: Only where a test has made node.conf, what a site's own prolog would be.
_HOOK = """#!/bin/sh
[ -e {home}/node.conf ] || exit 0
export SLURMSCHED_NODE_CONF={home}/node.conf LD_LIBRARY_PATH={home} FAKE_NVML_SCRIPT={home}/script PATH={path}
exec {programs}/{program}
"""


def node_programs(home: Path) -> list[str]:
    """Make prolog and epilog in *home*; return their lines of slurm.conf."""
    path = patient_path(home)
    for program in ("prolog", "epilog"):
        (home / program).write_text(_HOOK.format(home=home, path=path, programs=PROGRAMS, program=program))
        (home / program).chmod(0o755)
    return [*(f"{program}={home / program}" for program in ("prolog", "epilog")), "PrologFlags=Alloc"]


def node_settings(lab: Lab, home: Path, every_s: float, collector_user: str) -> str:
    """Write node.conf; return the address of the collector in it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "PYTHON": sys.executable,
        "RUN_DIR": f"{home}/run",
        "TASK_DIR": f"{home}/tasks",
        "SPOOL_DIR": f"{home}/spool",
        "EVERY_S": f"{every_s}",
        "MPS": "none",
        "GPU_INFO_DIR": "/nonexistent",
        "COLLECTOR": address,
        "COLLECTOR_USER": collector_user,
        "MUNGE_SOCKET": str(lab.layout.munge_socket),
    }
    (home / "node.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return address
