"""The lock that allows one daemon per state directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from ..errors import ConfigError

NAME = "daemon.lock"


class StateLock:
    """Locks *state_dir* for this process while entered; the kernel releases it when the process ends in any way.

    Entering raises ConfigError where another daemon has it or the directory cannot be used.
    """

    def __init__(self, state_dir: str | Path) -> None:
        self._path = Path(state_dir) / NAME
        self._handle: int | None = None

    def __enter__(self) -> StateLock:
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(
                f"opening {self._path}: {error.strerror}; daemon.state_dir must be a directory this user can write"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise ConfigError(
                f"another slurmsched daemon (pid {holder}) holds {self._path}; one daemon per daemon.state_dir"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
        self._handle = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
