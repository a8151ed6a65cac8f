"""Unix sockets of the web process: the kernel says who is at the other end, and some may not come in."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waitress.adjustments import Adjustments
from waitress.server import UnixWSGIServer

from ..errors import ConfigError
from .patience import LIMITS, Patient

_UCRED = struct.Struct("3i")


class UnixDoor(Patient, UnixWSGIServer):  # type: ignore[misc]  # waitress has no types
    """A server on a unix socket; the address of a client is its uid, and those that *admits* refuses are hung up on."""

    admits: Callable[[int], bool]

    @classmethod
    def open(
        cls, path: str, application: object, admits: Callable[[int], bool], mode: int, dispatcher: Any = None
    ) -> UnixDoor:
        """Listen on *path*, with the *mode* of its file; ConfigError where that is not possible or not safe.

        *dispatcher*: the threads that answer, where doors share them.
        """
        sock = _listening(Path(path), mode)
        made: UnixDoor = cls(
            application, {}, _sock=sock, dispatcher=dispatcher, adj=Adjustments(sockets=[sock], **LIMITS),
            bind_socket=False, sockinfo=(sock.family, sock.type, sock.proto, path),
        )  # fmt: skip
        made.admits = admits
        return made

    def accept(self) -> tuple[socket.socket, tuple[str, None]] | None:
        """Return the next client that may come in, with its uid as the address."""
        found = super().accept()
        if found is None:
            return None
        client: socket.socket = found[0]
        uid = _UCRED.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]
        if not self.admits(uid):
            client.close()
            return None
        return client, (str(uid), None)

    def fix_addr(self, addr: tuple[str, None]) -> tuple[str, None]:
        """Return the uid."""
        return addr


def uid_of_proxy(name: str) -> int:
    """Return the uid of the proxy's user; ConfigError for none: then nobody could be kept out."""
    if not name:
        raise ConfigError("web.proxy_socket needs web.proxy_user, the unix user of the proxy: nobody else may come in")
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ConfigError(f"web.proxy_user = {name!r}: there is no such user here") from error


def _listening(path: Path, mode: int) -> socket.socket:
    try:
        above = path.parent.stat()
        if above.st_mode & stat.S_IWOTH or above.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"{path}: others may write its directory, and could put a socket of their own there")
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(path))
        path.chmod(mode)
    except OSError as error:
        raise ConfigError(f"listening on {path}: {error.strerror or error}") from error
    return sock
