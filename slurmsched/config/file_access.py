"""Files that this process's user may not read: the path that denies access, and the users who have it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def barrier_of(path: Path) -> Path:
    """Return the outermost directory on the way to *path* that may not be entered, else *path* itself."""
    ways = [parent for parent in reversed(path.absolute().parents) if not os.access(parent, os.X_OK)]
    return next(iter(ways), path)


def readers_of(barrier: Path) -> str:
    """Describe who may read files behind *barrier*, in a sentence."""
    try:
        status = barrier.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    needed = stat.S_IXGRP if stat.S_ISDIR(status.st_mode) else stat.S_IRGRP
    names = dict.fromkeys(["root", _name_of(status.st_uid)])
    if status.st_mode & needed:
        names[f"the group {_group_of(status.st_gid)}"] = None
    return f"only {' and '.join(names)} may read it; run this as one of them"


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _group_of(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"
