"""The unix users of a lab."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from pathlib import Path

from slurmsched.lab import chores


def unix_names(names: tuple[str, ...], lab_id: str) -> dict[str, str]:
    """Map each lab name to a unix name that no other lab has."""
    return {name: f"{lab_id}-{name}" for name in names}


def create(name: str, home: Path, lab_id: str) -> None:
    """Create a system user without a password or a login shell; its group is nobody's."""
    identity = ["--system", "--no-user-group", f"--gid={nobody_gid()}", "--shell=/usr/sbin/nologin"]
    chores.do(["useradd", *identity, "--no-create-home", f"--home-dir={home}", "--no-log-init", name], lab_id)


def remove(name: str, lab_id: str) -> None:
    """Delete the user if it exists; one of another container with the same number may have processes."""
    if uid_of(name) is not None:
        chores.do(["userdel", "--force", name], lab_id)


def uid_of(name: str) -> int | None:
    """Return its uid; None when there is no such user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def nobody_gid() -> int:
    """Return the group that all lab users share."""
    return pwd.getpwnam("nobody").pw_gid


def uids_of(users: Mapping[str, str]) -> set[int]:
    """Return the uids of those unix users that exist."""
    return {uid for name in users.values() if (uid := uid_of(name)) is not None}


def passwd_lines(users: Mapping[str, str]) -> str:
    """Return the users as lines of /etc/passwd, for a root tree that has its own."""
    entries = (pwd.getpwnam(name) for name in users.values())
    return "".join(f"{e.pw_name}:x:{e.pw_uid}:{e.pw_gid}::{e.pw_dir}:{e.pw_shell}\n" for e in entries)
