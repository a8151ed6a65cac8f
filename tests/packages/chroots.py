"""Bare Debian systems without a network: a tree of debootstrap below, and what a test writes in a layer above it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = ROOT / "build/packages/trees"
BELOW = ("libgomp1", "man-db", "procps", "python3", "python3-apt", "systemd")
"""What a machine has, or gets from its own mirror: our packages depend on some of it, and Ansible on python3-apt."""

ENTER = """set -e
mount -t overlay chroot -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount -t tmpfs tmpfs "$2/root/tmp"
mount --rbind /dev "$2/root/dev"
[ -z "$3" ] || { mkdir -p "$2/root/packages" && mount --bind "$3" "$2/root/packages"; }
shift 3
# No exec: this shell is the first process of its namespace and has to collect the orphans of the others.
"$@"
"""

ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class NoChroot(Exception):
    """This machine cannot have one; the message says why."""


def tree(suite: str) -> Path:
    """Return the tree of a Debian release, made from the mirror that this machine's apt uses the first time."""
    if os.geteuid() != 0:
        raise NoChroot("a chroot needs root")
    if shutil.which("debootstrap") is None:
        raise NoChroot("debootstrap is not installed")
    made = TREES / f"{suite}-{hashlib.sha256(' '.join(BELOW).encode()).hexdigest()[:8]}"
    if not made.exists():
        TREES.mkdir(parents=True, exist_ok=True)
        part = made.with_name(f"{made.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        mirror = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(SUITE)", "Identifier: Packages"],
            capture_output=True, text=True, check=True,
        ).stdout.split()[0]  # fmt: skip
        argv = ["debootstrap", "--variant=minbase", f"--include={','.join(BELOW)}", suite, str(part), mirror]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoChroot(f"debootstrap: {done.stdout[-500:]}{done.stderr[-500:]}")
        part.rename(made)
    return made


class Chroot:
    """Runs commands as root of a Debian system of its own, without a network; its files stay from one to the next."""

    def __init__(self, suite: str, directory: Path, packages: Path | None = None) -> None:
        self._suite, self._below, self._layer, self._packages = suite, tree(suite), directory, packages
        for name in ("upper", "work", "root"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def beside(self, packages: Path) -> Chroot:
        """The same system with other packages at /packages."""
        return Chroot(self._suite, self._layer, packages)

    def path(self, name: str) -> Path:
        """Where a file of the system lies on this machine, for one that no package brings."""
        return self._layer / "upper" / name

    @property
    def root(self) -> Path:
        """Where the system lies for commands outside it."""
        return self._layer / "root"

    def run(self, *argv: str, timeout_s: float = 1200.0) -> subprocess.CompletedProcess[str]:
        """A command inside to its end, with its two outputs as one."""
        return self.outside("chroot", str(self.root), *argv, timeout_s=timeout_s)

    def outside(self, *argv: str, timeout_s: float = 1200.0, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of this machine to its end that sees the system at ``root``, without a network too."""
        apart = ["unshare", "--mount", "--propagation=private", "--net", "--uts", "--ipc", "--pid", "--fork"]
        keep = ["sh", "-c", ENTER, "sh", str(self._below), str(self._layer), str(self._packages or "")]
        return subprocess.run(
            [*apart, "--kill-child", *keep, *argv],
            env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout_s,
        )  # fmt: skip

    def sh(self, script: str) -> str:
        """What *script* prints; it has to succeed."""
        done = self.run("sh", "-ec", script)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    def files(self) -> set[str]:
        """Every path but those that any package changes: records of dpkg, apt, man, systemd, copies of accounts."""
        records = ("/var/lib/dpkg*", "/var/lib/apt*", "/var/cache/apt*", "/var/cache/debconf*", "/var/cache/man*")
        records += ("/var/log*", "/run/systemd*", "/packages*")
        found = self.sh(f"find / -xdev {' '.join(f'! -path {pattern!r}' for pattern in records)}").splitlines()
        backups = {f"/etc/{name}{tail}" for name in ("passwd", "group", "shadow", "gshadow") for tail in ("-", ".lock")}
        return {*found} - backups - {"/etc/.pwd.lock", "/var/cache/ldconfig/aux-cache"}
