"""A socket for untrusted clients that never makes the cycle wait."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import stat
import struct
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from ...errors import ConfigError
from .hourly_warning import HourlyWarning

T = TypeVar("T")

logger = logging.getLogger(__name__)

BACKLOG = 1024
_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The client, as identified by the kernel, and its connection."""

    uid: int = -1  #: the unix user; -1 over TCP
    address: str = ""  #: the IP address; empty over a unix socket
    greeting: bytes = field(default=b"", compare=False)  #: the line sent to this connection alone
    services: tuple[str, ...] | None = field(default=None, compare=False)
    """The DNS names in its verified certificate; None for a client without one."""


Answer = Callable[[bytes, Peer], Awaitable[bytes]]


@dataclass(eq=False)
class _Visit:
    task: asyncio.Task[None]
    request_complete: bool = False  #: the request is there
    evicted: bool = False


def started_threads(workers: int, name: str) -> ThreadPoolExecutor:
    """Return an executor of which all *workers* have started: a process short of memory cannot start a thread."""
    executor, all_started = ThreadPoolExecutor(workers, thread_name_prefix=name), threading.Barrier(workers + 1)
    for _ in range(workers):
        executor.submit(all_started.wait)
    all_started.wait()
    return executor


class Turns:
    """Work for clients in a few threads, one piece at a time for each peer, whatever it requests."""

    def __init__(self, workers: int, name: str) -> None:
        self._workers = started_threads(workers, name)
        self._turns: dict[Peer, tuple[asyncio.Lock, int]] = {}  #: and how many need it

    async def run(self, peer: Peer, work: Callable[[], T], within_s: float) -> T:
        """Run *work* when the peer's earlier work is done and return its result; TimeoutError after *within_s*."""
        loop = asyncio.get_running_loop()
        lock, users = self._turns.get(peer, (asyncio.Lock(), 0))
        self._turns[peer] = lock, users + 1
        try:
            async with asyncio.timeout(within_s):
                await lock.acquire()
        except BaseException:
            self._leave(peer)
            raise

        def done(future: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and no client waits any more
                loop.call_soon_threadsafe(self._release, peer)

        future = self._workers.submit(work)
        # Freed when the work is done, not when the client has gone: hanging up must not buy a second piece of work.
        future.add_done_callback(done)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Start no further work."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _release(self, peer: Peer) -> None:
        self._turns[peer][0].release()
        self._leave(peer)

    def _leave(self, peer: Peer) -> None:
        lock, users = self._turns.pop(peer)
        if users > 1:
            self._turns[peer] = lock, users - 1


class Listener:
    """Answers one request per client in a thread of its own, a bounded number at a time, within ``patience_s``.

    A request ends with *end*. Above ``most`` visits, or ``most_per_peer`` of one unix user or address, a new visit
    replaces the oldest visit without a complete request: of the same peer, or of the peer with most visits. Where
    there is none, the new client gets *busy*. A request of more than *request_b* bytes without an end gets *too_long*.

    With *tls*, connections are encrypted by the context that it returns, and failed handshakes are passed to
    *tls_failed*; whoever gets *busy* without one is hung up on instead. *greeting* makes the first line to a client.
    """

    def __init__(
        self,
        server: socket.socket,
        answer: Answer,
        *,
        name: str,
        end: bytes = b"\n",
        busy: bytes = b"",
        too_long: Callable[[], bytes] = bytes,
        request_b: int = 4096,
        most: int = 64,
        most_per_peer: int = 16,
        patience_s: float = 5.0,
        greeting: Callable[[], bytes] = bytes,
        tls: Callable[[], ssl.SSLContext] | None = None,
        tls_failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket, self._answer, self._end, self._request_b = server, answer, end, request_b
        self._greeting, self._tls, self._tls_failed = greeting, tls, tls_failed
        self._busy, self._too_long = busy, too_long
        self._most, self._most_per_peer, self._patience_s = most, most_per_peer, patience_s
        self._visits: defaultdict[Peer, list[_Visit]] = defaultdict(list)
        self._loop = asyncio.new_event_loop()
        self._handshakes_failed = HourlyWarning(logger, self._loop.time)
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening and drop all connected clients."""
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
        peer, task = _peer(writer), asyncio.current_task()
        if task is None or not self._has_room(peer):
            self._hang_up(writer)
            return
        visit = _Visit(task)
        self._visits[peer].append(visit)
        # Without a buffer drain() waits until the client has read everything: unread answers use the client's memory.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(self._patience_s):
                # Nothing may be awaited before: what the client sends first must reach the handshake.
                services = await self._encrypt(writer, self._tls()) if self._tls else None
                greeting = self._greeting()
                writer.write(greeting)
                writer.write(await self._talk(reader, visit, replace(peer, greeting=greeting, services=services)))
                await writer.drain()
                writer.close()
                if self._tls:
                    await writer.wait_closed()  # a client that does not close either would hold a file descriptor
        except (TimeoutError, OSError, EOFError, MemoryError, asyncio.CancelledError) as error:
            logger.debug("%s: a client was dropped: %r", self._thread.name, error)
            if visit.evicted:
                self._hang_up(writer)
            else:
                writer.transport.abort()
        finally:
            self._forget(peer, visit)

    async def _encrypt(self, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> tuple[str, ...] | None:
        """Complete the handshake; return the DNS names in the client's certificate, None where it sent none."""
        try:
            await writer.start_tls(context)
        except OSError as error:  # also ssl.SSLError
            self._note_failure(_peer(writer), error)
            raise
        # Here a limit of 0 would pause and resume at every write.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        certificate = writer.get_extra_info("ssl_object").getpeercert()
        if certificate is None:
            return None
        return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")

    def _note_failure(self, peer: Peer, error: OSError) -> None:
        self._tls_failed()
        reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or error
        self._handshakes_failed.warn(f"{self._thread.name}: no TLS connection with {peer.address}: {reason}")

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        if self._tls:
            writer.transport.abort()
        else:
            writer.write(self._busy)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, visit: _Visit, peer: Peer) -> bytes:
        try:
            request = await reader.readuntil(self._end)
        except asyncio.LimitOverrunError:
            return self._too_long()
        visit.request_complete = True
        return await self._answer(request, peer)

    def _has_room(self, peer: Peer) -> bool:
        """Report whether there is room for one more visit of *peer*, evicting an idle visit if necessary."""
        if len(self._visits.get(peer, ())) >= self._most_per_peer:
            return self._evict(peer)
        if sum(map(len, self._visits.values())) < self._most:
            return True
        return any(map(self._evict, sorted(self._visits, key=lambda one: len(self._visits[one]), reverse=True)))

    def _evict(self, peer: Peer) -> bool:
        """Drop the oldest visit of *peer* without a complete request; return whether there was one."""
        visit = next((visit for visit in self._visits[peer] if not visit.request_complete), None)
        if visit is None:
            return False
        visit.evicted = True
        visit.task.cancel()
        self._forget(peer, visit)
        return True

    def _forget(self, peer: Peer, visit: _Visit) -> None:
        visits = self._visits.get(peer, [])
        if visit in visits:
            visits.remove(visit)
        if not visits:
            self._visits.pop(peer, None)


def _peer(writer: asyncio.StreamWriter) -> Peer:
    peer: socket.socket = writer.get_extra_info("socket")
    if peer.family != socket.AF_UNIX:
        return Peer(address=str((writer.get_extra_info("peername") or ("",))[0]))
    return Peer(uid=int(_UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]))


def host_and_port(name: str, text: str, accepted: str) -> tuple[str, int]:
    """Parse the IP address and port *text* of the setting *name*; ConfigError with what is *accepted*."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError as error:
        raise ConfigError(f"{name} = {text!r}: {error}; accepted: {accepted}") from error
    if not (port.isdecimal() and port.isascii() and int(port) < 65536):
        raise ConfigError(f"{name} = {text!r}: {port!r} is no port; accepted: {accepted}")
    return str(address), int(port)


def tcp_server(name: str, address: tuple[str, int]) -> socket.socket:
    """Bind TCP at *address*, the value of the setting *name*; ConfigError where that fails."""
    host, port = address
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise ConfigError(f"{name}: opening {host} port {port}: {error.strerror or error}") from error
    return server


def unix_server(path: Path, mode: int) -> socket.socket:
    """Bind a unix socket at *path* with *mode*; a dead daemon's socket there is removed.

    Raises ConfigError where a process answers there, another file exists there, or the directory is not writable.
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
