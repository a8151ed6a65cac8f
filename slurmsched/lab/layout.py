"""The paths in a lab's directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurmsched.errors import LabError

SOCKET_PATH_MAX = 107  # sun_path holds 108 bytes, the last one a zero


@dataclass(frozen=True)
class Layout:
    """The paths of one lab, all below *directory*, the same inside and outside a root tree."""

    directory: Path

    def __post_init__(self) -> None:
        longest = max((self.munge_socket, self.database_socket), key=lambda path: len(bytes(path)))
        if (length := len(bytes(longest))) > SOCKET_PATH_MAX:
            raise LabError(
                f"{self.directory} is too long for a lab: its socket {longest} has {length} bytes,"
                f" the kernel takes {SOCKET_PATH_MAX}; choose a directory at least"
                f" {length - SOCKET_PATH_MAX} bytes shorter"
            )
        if unfit := set(str(self.directory)) & set(" \t\n\"'#\\%,[]"):
            raise LabError(f"a lab cannot live at {self.directory}: slurm.conf cannot quote {''.join(sorted(unfit))!r}")

    @property
    def manifest(self) -> Path:
        """The record of all objects of this lab outside its directory."""
        return self.directory / "lab.json"

    @property
    def etc(self) -> Path:
        """slurm.conf and its companions."""
        return self.directory / "etc"

    @property
    def slurm_conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.etc / "slurm.conf"

    @property
    def logs(self) -> Path:
        """The directory of logs, one per daemon."""
        return self.directory / "log"

    @property
    def run(self) -> Path:
        """Pid files and sockets."""
        return self.directory / "run"

    @property
    def state(self) -> Path:
        """slurmctld's StateSaveLocation."""
        return self.directory / "state"

    @property
    def spool(self) -> Path:
        """The parent of slurmd's spool directories, one per node."""
        return self.directory / "spool"

    @property
    def devices(self) -> Path:
        """The fake GPUs."""
        return self.directory / "dev"

    @property
    def work(self) -> Path:
        """The directory from which lab users submit and to which jobs write: world-writable and sticky."""
        return self.directory / "work"

    @property
    def secrets(self) -> Path:
        """The munge key and seed; readable only by their owner."""
        return self.directory / "munge"

    @property
    def munge_socket(self) -> Path:
        """munged's own socket."""
        return self.run / "munge.socket"

    @property
    def database(self) -> Path:
        """MariaDB's data, temporary files and socket."""
        return self.directory / "db"

    @property
    def database_socket(self) -> Path:
        """MariaDB's own socket."""
        return self.database / "sock"

    @property
    def root(self) -> Path:
        """The mount point of another Slurm's root tree."""
        return self.directory / "root"

    @property
    def overlay(self) -> Path:
        """The upper layer of the mounted tree, which receives all writes and leaves the tree unchanged."""
        return self.directory / "overlay"

    def log(self, name: str) -> Path:
        """Return the log file of the daemon *name*."""
        return self.logs / f"{name}.log"

    def log_tail(self, name: str, lines: int = 8) -> str:
        """Return the last lines of a daemon's log, for an error message."""
        try:
            text = self.log(name).read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(empty log)"
