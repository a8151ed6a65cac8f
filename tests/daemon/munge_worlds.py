"""A private munged, and credentials of any user from it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


@dataclass
class Munge:
    """A munged of our own."""

    socket: Path
    address: str  #: that its credentials name

    def credential(self, payload: bytes, *options: str, user: str | None = None, uid: int | None = None) -> bytes:
        who = pwd.getpwnam(user) if user else None
        own = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if who else {"user": uid}
        argv = ["munge", f"--socket={self.socket}", *options]
        return subprocess.run(argv, input=payload, capture_output=True, check=True, **own).stdout

    def verdict(self, credential: bytes) -> bytes:
        """What unmunge prints about a credential without counting it as used."""
        argv = [*self.unmunge, "--keys=STATUS"]
        return subprocess.run(argv, input=credential, capture_output=True, check=False).stdout

    @property
    def unmunge(self) -> list[str]:
        return ["unmunge", f"--socket={self.socket}"]


@contextmanager
def munged(*options: str) -> Iterator[Munge]:
    if os.geteuid() != 0:
        pytest.skip("a munged that serves several users needs root")
    if shutil.which("munged", path=PATH) is None:
        pytest.skip("munged is not installed")
    with tempfile.TemporaryDirectory(prefix="munge-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        secrets = home / "secrets"
        secrets.mkdir(mode=0o700)
        key = secrets / "key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        argv = ["munged", "--foreground", "--force", f"--socket={home}/socket", f"--key-file={key}", *options]
        argv += [f"--seed-file={secrets}/seed", f"--pid-file={secrets}/pid", f"--log-file={secrets}/log"]
        daemon = subprocess.Popen(
            argv, env=os.environ | {"PATH": PATH}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until_s = time.monotonic() + 60.0
            while not (home / "socket").exists():
                if daemon.poll() is not None:
                    pytest.skip(f"this munged does not start with {options}")
                assert time.monotonic() < until_s, "munged gave no socket"
                time.sleep(0.01)
            ours = Munge(home / "socket", "")
            probe = subprocess.run(
                [*ours.unmunge, "--keys=ENCODE_HOST"], input=ours.credential(b""), capture_output=True, check=True
            )
            yield replace(ours, address=probe.stdout.decode().split("(")[1].split(")")[0])
        finally:
            daemon.terminate()
            daemon.wait(90.0)
