"""A socket that talks to strangers without ever making the cycle wait."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError

logger = logging.getLogger(__name__)

Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BACKLOG = 1024
_UCRED = struct.Struct("3i")


class Listener:
    """Holds short conversations in a thread of its own, a bounded number at a time, each within ``patience_s``.

    Over ``most`` conversations, or ``most_per_user`` of one unix user, newcomers hear ``busy`` and are sent away.
    """

    def __init__(
        self,
        server: socket.socket,
        converse: Converse,
        *,
        name: str,
        busy: bytes = b"",
        request_b: int = 4096,
        most: int = 64,
        most_per_user: int = 16,
        patience_s: float = 5.0,
    ) -> None:
        self._socket, self._converse, self._busy, self._request_b = server, converse, busy, request_b
        self._most, self._most_per_user, self._patience_s = most, most_per_user, patience_s
        self._talking: Counter[int] = Counter()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening and drop the conversations under way."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(self._patience_s)
        else:
            self._loop.close()
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._socket.setblocking(False)
        start = asyncio.start_unix_server if self._socket.family == socket.AF_UNIX else asyncio.start_server
        server = await start(self._meet, sock=self._socket, limit=self._request_b, backlog=BACKLOG)
        await self._stop.wait()
        server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = peer_uid(writer)
        if self._talking.total() >= self._most or (uid >= 0 and self._talking[uid] >= self._most_per_user):
            writer.write(self._busy)
            writer.close()
            return
        self._talking[uid] += 1
        # Without a buffer drain() waits until the client took everything: an answer left lying is a client's memory.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(self._patience_s):
                await self._converse(reader, writer)
                await writer.drain()
            writer.close()
        except (TimeoutError, OSError, EOFError, asyncio.CancelledError) as error:
            logger.debug("%s: a client was dropped: %r", self._thread.name, error)
            writer.transport.abort()
        finally:
            self._talking[uid] -= 1


def peer_uid(writer: asyncio.StreamWriter) -> int:
    """The unix user at the other end, as the kernel says; -1 over TCP."""
    peer: socket.socket = writer.get_extra_info("socket")
    if peer.family != socket.AF_UNIX:
        return -1
    return int(_UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1])


def unix_server(path: Path, mode: int) -> socket.socket:
    """A bound unix socket at *path* with *mode*; what a dead daemon left there is removed.

    Raises ConfigError where someone answers there, something else lies there, or the directory cannot be written.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _remove_stale(path)
        server.bind(str(path))
        path.chmod(mode)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise ConfigError(f"opening the socket {path}: {error.strerror or error}") from error
    except ConfigError:
        server.close()
        raise
    return server


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"opening the socket {path}: something that is no socket lies there; move it away")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(FileNotFoundError):
                path.unlink()
            return
    raise ConfigError(f"opening the socket {path}: another process answers there")
