"""The initial files of a lab: directories, fake GPUs, keys and configuration."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
from pathlib import Path

from slurmsched.lab import conf, programs
from slurmsched.lab.layout import Layout
from slurmsched.lab.manifest import Manifest


def make_directories(layout: Layout, gpus: int) -> None:
    """Create the empty directories, and the fake GPUs that all nodes share, each under a second name too."""
    for directory in (layout.etc, layout.logs, layout.run, layout.state, layout.spool, layout.devices, layout.work):
        directory.mkdir()
        directory.chmod(0o755)
    layout.work.chmod(0o1777)
    layout.secrets.mkdir(mode=0o700)
    for number in range(gpus):
        # slurmd wants a character device; a link to this one takes no root to make.
        for name in ("gpu", "slot"):
            (layout.devices / f"{name}{number}").symlink_to(os.devnull)


def write_configuration(layout: Layout, manifest: Manifest, password: str) -> None:
    """Write all files that the daemons read; *password* is slurmdbd's at the database."""
    user, host = getpass.getuser(), host_name()
    spec = manifest.spec
    closed = spec.slurm_root is not None or _is_loopback(host)
    _write(layout.secrets / "key", secrets.token_hex(64), mode=0o400)
    _write(layout.slurm_conf, conf.slurm_conf(layout, spec, manifest.lab_id, manifest.ports, user, host, closed=closed))
    _write(layout.etc / "gres.conf", conf.gres_conf(layout, spec))
    _write(layout.etc / "cgroup.conf", conf.cgroup_conf(programs.slurm_release(spec.slurm_root)))
    for name, text in spec.files.items():
        _write(layout.etc / name, text)
    if spec.job_submit_lua:
        shutil.copyfile(spec.job_submit_lua, layout.etc / "job_submit.lua")
    if spec.accounting:
        _write(layout.etc / "slurmdbd.conf", conf.slurmdbd_conf(layout, manifest.ports, user, password), mode=0o600)


def host_name() -> str:
    """Return the machine's short name, which Slurm compares with its configuration."""
    return socket.gethostname().partition(".")[0]


def _is_loopback(host: str) -> bool:
    try:
        return socket.gethostbyname(host) == "127.0.0.1"
    except OSError:
        return False


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write *path*; at no time can other users read it beyond *mode*, whatever the umask."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    path.chmod(mode)
