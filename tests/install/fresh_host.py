"""A host where slurmsched was never installed: this machine, with system directories that belong to the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import slurmsched

PYTHON = "/usr/bin/python3"

SETUP = """set -e
mkdir "$1"
mount -t tmpfs fresh-host "$1"
# Of /etc a copy lies below: accounts come and go on the machine, and a lock of that moment would stay for good.
cp -a /etc "$1/etc"
rm -f "$1"/etc/passwd.lock "$1"/etc/shadow.lock "$1"/etc/group.lock "$1"/etc/gshadow.lock "$1"/etc/.pwd.lock
for place in /etc /usr /opt /var/lib /var/spool /var/cache; do
    mkdir -p "$1/upper$place" "$1/work$place"
    below=$place
    [ $place = /etc ] && below=$1/etc
    mount -t overlay fresh-host -o "lowerdir=$below,upperdir=$1/upper$place,workdir=$1/work$place" "$place"
done
mount -t tmpfs -o mode=0755 fresh-host /run
echo ready
exec setpriv --pdeathsig KILL sleep infinity
"""


class FreshHost:
    """Runs commands in a mount namespace of its own: whatever they write to system directories stays in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh", str(directory / "layers")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._keeper.stdout is not None
        self.ready = self._keeper.stdout.readline() == "ready\n"

    def changes(self) -> list[str]:
        """What differs from the machine below in system directories; directories count where they are new."""
        return self.sh(f"cd {self.directory}/layers/upper && find . -mindepth 2 | sort").split("\n")[:-1]

    def close(self) -> None:
        """End the namespace, and with it all that was written."""
        self._keeper.kill()
        self._keeper.communicate()

    def run(
        self, *argv: str, user: str = "", cwd: str | Path = "/", timeout_s: float = 300.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end, as root or as *user* (who has a group of that name)."""
        as_user = (
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        )  # useradd made both
        known = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            ["nsenter", f"--target={self._keeper.pid}", "--mount", f"--wdns={cwd}", *as_user, *argv],
            env=known | environment, capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip

    def sh(self, script: str, cwd: str | Path = "/", **environment: str) -> str:
        """What *script* prints, run by root; it has to succeed."""
        done = self.run("sh", "-ec", script, cwd=cwd, **environment)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def fresh_host(directory: Path) -> Iterator[FreshHost]:
    """A fresh host that keeps its files in *directory*; skips the test where this machine cannot have one."""
    if os.geteuid() != 0:
        pytest.skip("a host of its own needs root")
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("no unshare and setpriv here")
    host = FreshHost(directory)
    try:
        if not host.ready:
            host.close()
            pytest.skip("no overlay may be mounted here")
        yield host
    finally:
        host.close()


def place_program(host: FreshHost) -> None:
    """Put this checkout, with what this Python has, where pip would: /opt/slurmsched/bin/slurmsched, for every user."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    version = host.run(PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if version.stdout.strip() != here:
        pytest.skip(f"no Python {here} here that every user may run")
    package = Path(slurmsched.__file__).parent
    libraries = [Path(place) for place in sys.path if place.endswith("-packages") and Path(place).is_dir()]
    places = {package: "/usr/local/lib/checkout/slurmsched"}
    places |= {library: f"/usr/local/lib/checkout{number}" for number, library in enumerate(libraries)}
    for source, place in places.items():
        # Read-only: a test may remove whole directories of its host, and these are the real ones.
        host.sh(f"install -d {place} && mount --bind {source} {place} && mount -o remount,bind,ro {place}")
    path = ":".join(["/usr/local/lib/checkout", *list(places.values())[1:]])
    lines = ["#!/bin/sh", f"export PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1", f'exec {PYTHON} -m slurmsched "$@"']
    (host.directory / "slurmsched").write_text("\n".join([*lines, ""]))
    host.sh(f"install -D -m 755 {host.directory}/slurmsched /opt/slurmsched/bin/slurmsched")
    checkout, share = package.parent, "/opt/slurmsched/share/slurmsched"
    host.sh(f"install -d {share} && cd {checkout} && cp -r --parents contrib systemd scripts slurmsched/prolog {share}")


def install_program(host: FreshHost) -> None:
    """Place the program, and link it where everybody finds it."""
    place_program(host)
    host.sh("ln -s /opt/slurmsched/bin/slurmsched /usr/bin/slurmsched")
