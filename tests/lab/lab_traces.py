"""What a lab may have left on the machine."""

from __future__ import annotations

import pwd
import socket
from dataclasses import dataclass
from pathlib import Path

from slurmsched.lab.manifest import Manifest
from slurmsched.lab.processes import belonging
from slurmsched.lab.tree import mounted_below


@dataclass(frozen=True)
class Traces:
    """Everything by which a lab could still be seen, taken while it is up."""

    directory: Path
    lab_id: str
    users: frozenset[str]
    uids: frozenset[int]
    ports: frozenset[int]

    @classmethod
    def of(cls, directory: Path) -> Traces:
        record = Manifest.load(directory / "lab.json")
        names = frozenset(record.users.values())
        there = [entry for entry in pwd.getpwall() if entry.pw_name in names]
        ports = {*record.ports.values(), *(record.ports["slurmd"] + number for number in range(record.spec.nodes))}
        return cls(directory, record.lab_id, names, frozenset(entry.pw_uid for entry in there), frozenset(ports))

    def left(self) -> list[str]:
        marks = (f"SLURMSCHED_LAB={self.lab_id}".encode(), f"SLURM_CLUSTER_NAME={self.lab_id}".encode())
        found = [f"process {process.pid}" for process in belonging(marks, self.uids, self.directory)]
        found += [f"user {entry.pw_name}" for entry in pwd.getpwall() if entry.pw_name.startswith(self.lab_id)]
        found += [f"port {port}" for port in self.ports if listening(port)]
        found += [f"mount {point}" for point in mounted_below(self.directory)]
        return found + ([f"directory {self.directory}"] if self.directory.exists() else [])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def host_slurm() -> dict[str, tuple[int, int]]:
    """Every file of the host's own Slurm and munge, with what would change if it were touched."""
    places = [Path(place) for place in ("/etc/slurm", "/etc/munge", "/var/lib/munge", "/var/spool/slurm", "/run/munge")]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.exists()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
