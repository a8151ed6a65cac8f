"""A host where slurmsched was never installed: this machine, with system directories that belong to the test."""

from __future__ import annotations

import importlib.metadata
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
CHECKOUT = "/usr/src/slurmsched"
LIBRARIES = "/usr/local/lib/newcomer"
BUILD_WITH = ("setuptools", "wheel")

SETUP = r"""set -e
mkdir "$1"
mount -t tmpfs fresh-host "$1"
# Of /etc a copy lies below: accounts come and go on the machine, and a lock of that moment would stay for good.
cp -a /etc "$1/etc" || [ -e "$1/etc/passwd" ]  # a file may be gone before it is copied
rm -f "$1"/etc/passwd.lock "$1"/etc/shadow.lock "$1"/etc/group.lock "$1"/etc/gshadow.lock "$1"/etc/.pwd.lock
# Users of the host get numbers that no user of the machine has: who ends those would end their processes, too.
first=$2
sed -i -E '/^ *(SYS_)?[UG]ID_(MIN|MAX)/d' "$1/etc/login.defs"
for kind in UID GID; do
    printf '%s_MIN %s\n%s_MAX %s\n' $kind $first $kind $((first + 49))
    printf 'SYS_%s_MIN %s\nSYS_%s_MAX %s\n' $kind $((first + 50)) $kind $((first + 99))
done >>"$1/etc/login.defs"
for place in /etc /usr /opt /var/lib /var/spool /var/cache; do
    mkdir -p "$1/upper$place" "$1/work$place"
    below=$place
    [ $place = /etc ] && below=$1/etc
    mount -t overlay fresh-host -o "lowerdir=$below,upperdir=$1/upper$place,workdir=$1/work$place" "$place"
done
mount -t tmpfs -o mode=0755 fresh-host /run
echo ready
# No exec: this shell is the first process of its namespace and has to collect the orphans of the others.
while :; do sleep 3600 & wait $!; done
"""

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def first_uid() -> str:
    """The first of a hundred numbers for users that most likely nobody else on this machine takes now."""
    return str(30_000 + 100 * secrets.randbelow(300))


class NoHost(Exception):
    """This machine cannot have a host of its own; the message says why."""


class FreshHost:
    """Runs commands in namespaces of mounts and processes: what they write to system directories stays in it.

    Without *network* it reaches nothing but itself.
    """

    def __init__(self, directory: Path, *, network: bool = True) -> None:
        if os.geteuid() != 0:
            raise NoHost("a host of its own needs root")
        if shutil.which("unshare") is None or shutil.which("setpriv") is None:
            raise NoHost("no unshare and setpriv here")
        self.directory = directory
        self._net = [] if network else ["--net"]
        apart = [
            "unshare",
            "--mount",
            "--propagation=private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            *self._net,
        ]
        self._keeper = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *apart, "sh", "-c", SETUP, "sh", str(directory / "layers"), first_uid()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            self.close()
            raise NoHost("no overlay may be mounted here")
        if self._net:
            # slurmdbd resolves no address where loopback has the only one: a cable that ends here.
            self.sh("ip link add end0 type veth peer name end1 && ip address add 192.0.2.1/24 dev end0")
            self.sh("for one in lo end0 end1; do ip link set $one up; done")

    def changes(self) -> list[str]:
        """What differs from the machine below in system directories; directories count where they are new."""
        return self.sh(f"cd {self.directory}/layers/upper && find . -mindepth 2 | sort").split("\n")[:-1]

    def close(self) -> None:
        """End its processes, and with the last of them all that was written."""
        self._keeper.kill()
        self._keeper.communicate()

    def argv(self, user: str = "", cwd: str | Path = "/") -> list[str]:
        """What to put before a command so that it runs here, as root or as *user* with the user's groups."""
        pid = self._keeper.pid
        inside = [
            "nsenter",
            f"--target={pid}",
            "--mount",
            *self._net,
            f"--pid=/proc/{pid}/ns/pid_for_children",
            f"--wdns={cwd}",
        ]
        as_user = ["setpriv", f"--reuid={user}", f"--regid={self.group(user)}", "--init-groups"] if user else []
        return [*inside, *as_user]

    def group(self, user: str) -> str:
        """The number of the user's own group."""
        return self.sh(f"id -g {user}").strip()

    def run(
        self, *argv: str, user: str = "", cwd: str | Path = "/", timeout_s: float = 300.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end, as root or as *user*."""
        return subprocess.run(
            [*self.argv(user, cwd), *argv],
            env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip

    def sh(self, script: str, cwd: str | Path = "/", **environment: str) -> str:
        """What *script* prints, run by root; it has to succeed."""
        done = self.run("sh", "-ec", script, cwd=cwd, **environment)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def fresh_host(directory: Path, *, network: bool = True) -> Iterator[FreshHost]:
    """A fresh host that keeps its files in *directory*."""
    host = FreshHost(directory, network=network)
    try:
        yield host
    finally:
        host.close()


def requirements(name: str = "slurmsched") -> dict[str, importlib.metadata.Distribution]:
    """The libraries that pip would fetch for a distribution without its extras, in this Python's versions."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        for line in distribution.requires or ():
            wanted = Requirement(line)
            library = canonicalize_name(wanted.name)
            applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            if applies and library not in found:
                found[library] = importlib.metadata.distribution(library)
                waiting.append(library)
    return found


def place_libraries(host: FreshHost) -> None:
    """Put what pip would fetch for slurmsched into LIBRARIES, for every user to read."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    version = host.run(PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if version.stdout.strip() != here:
        raise NoHost(f"no Python {here} here that every user may run")
    wanted = [*requirements().values(), *(importlib.metadata.distribution(name) for name in BUILD_WITH)]
    host.sh(f"install -d {LIBRARIES}")
    for place in {Path(str(distribution.locate_file(""))).resolve() for distribution in wanted}:
        below = f"{LIBRARIES}/.from{str(place).replace('/', '-')}"
        # Read-only: a test may remove whole directories of its host, and these are the real ones.
        host.sh(f"install -d {below} && mount --bind {place} {below} && mount -o remount,bind,ro {below}")
        for distribution in wanted:
            if Path(str(distribution.locate_file(""))).resolve() == place:
                tops = {
                    file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")
                }
                host.sh(f"cd {LIBRARIES} && ln -s {' '.join(f'{below}/{top}' for top in sorted(tops))} .")


def place_checkout(host: FreshHost) -> None:
    """Put a copy of this checkout at CHECKOUT, without what builds and tests left in it."""
    left = ("__pycache__", "*.egg-info", "build", ".*")
    copy = host.directory / "checkout"
    copy.mkdir()
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, copy)
    for name in ("slurmsched", "contrib", "systemd", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*left))
    host.sh(f"cp -r {copy} {CHECKOUT}")
