"""Files with secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...errors import ConfigError


def demand_private(name: str, path: str) -> Path:
    """Return the file at *path*, the value of the setting *name*; ConfigError where every user may read or write it."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise ConfigError(f"{name}: {path}: {error.strerror or error}") from error
    if mode & stat.S_IRWXO or mode & stat.S_IWGRP:
        raise ConfigError(f"{name}: {path} is open to other users (mode {stat.S_IMODE(mode):04o}); chmod 640 or less")
    return Path(path)
