"""How long the web process waits for clients, and who makes room when very many are connected.

A connection has one request and one answer. Bytes that trickle in buy no time, and where there is no room, those who
wait for nobody but themselves are hung up on: a whole request is never one of them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask

THREADS = 8
CONNECTIONS = 200
BUSY_MOST = 100  #: connections beyond these whose requests wait for a thread
HEADER_B = 16 * 1024
ASK_S = 10.0  #: for a client to send its request
TAKE_S = 60.0  #: to take the answer
LIMITS: Mapping[str, Any] = {
    "threads": THREADS,
    "connection_limit": CONNECTIONS + BUSY_MOST,
    "cleanup_interval": 1,
    "max_request_header_size": HEADER_B,
    "max_request_body_size": HEADER_B,
    "ident": None,
    "log_socket_errors": False,  # nor what follows: whoever hangs up, or floods, would fill the log
}
logging.getLogger("waitress.queue").setLevel(logging.ERROR)


class Waiting(NamedTuple):
    """A connection on which the client has to do something: its *peer*, what it does, and since when."""

    peer: object
    since_s: float
    takes: bool  #: it takes an answer; else it sends its request
    connection: Any


def overdue(waiting: Iterable[Waiting], now_s: float) -> list[Waiting]:
    """Return the connections whose clients had their time."""
    return [one for one in waiting if now_s - one.since_s > (TAKE_S if one.takes else ASK_S)]


def gives_way(waiting: Iterable[Waiting], peers: Iterable[object]) -> Waiting | None:
    """Return the connection to close when there is no room: of the peer with the most, that which waits longest.

    *peers* are those of all connections; None where nothing waits for its client.
    """
    many = Counter(peers)
    return max(waiting, key=lambda one: (many[one.peer], -one.since_s), default=None)


class _OneAnswer:
    """Ends the connection with the answer, as then nobody can queue requests whose answers he does not take."""

    def build_response_header(self) -> bytes:
        self.set_close_on_finish()  # type: ignore[attr-defined]
        found: bytes = super().build_response_header()  # type: ignore[misc]
        return found

    def finish(self) -> None:
        super().finish()  # type: ignore[misc]
        self.channel.answered()  # type: ignore[attr-defined]


class _Task(_OneAnswer, WSGITask):  # type: ignore[misc]  # waitress has no types
    pass


class _ErrorTask(_OneAnswer, ErrorTask):  # type: ignore[misc]
    pass


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when it waits for its client."""

    task_class, error_task_class = _Task, _ErrorTask

    def __init__(self, *args: Any, **options: Any) -> None:
        self.since_s, self.takes, self.gone = time.monotonic(), False, False
        super().__init__(*args, **options)

    def answered(self) -> None:
        """Begin to wait for the client to take the answer; called before the request is forgotten."""
        self.since_s, self.takes = time.monotonic(), True

    def readable(self) -> bool:
        return not self.gone and bool(super().readable())

    def writable(self) -> bool:
        return not self.gone and bool(super().writable())

    def hang_up(self) -> None:
        """Close it now: a client that takes nothing would never let it become writable."""
        self.gone = True
        self.handle_close()


class Patient:
    """A server of waitress with limits on how long, and on how many, clients are waited for."""

    channel_class = _Channel
    active_channels: dict[int, Any]

    def readable(self) -> bool:
        """Make room for the next client, before the server looks whether there is some."""
        if len(self.active_channels) >= CONNECTIONS and (one := gives_way(self._waiting(), self._peers())):
            one.connection.hang_up()
        return bool(super().readable())  # type: ignore[misc]

    def maintenance(self, now: float) -> None:
        """Hang up on clients that had their time; *now* may jump, and is not used."""
        for one in overdue(self._waiting(), time.monotonic()):
            one.connection.hang_up()

    def _waiting(self) -> list[Waiting]:
        every = list(self.active_channels.values())
        return [Waiting(one.addr[0], one.since_s, one.takes, one) for one in every if not one.requests]

    def _peers(self) -> Iterable[object]:
        return [one.addr[0] for one in self.active_channels.values()]


class TcpDoor(Patient, TcpWSGIServer):  # type: ignore[misc]
    """A server on an address of this host."""

    @classmethod
    def open(cls, host: str, port: int, application: object, dispatcher: Any = None) -> TcpDoor:
        """Listen on *port* of *host*; *dispatcher*: the threads that answer, where doors share them."""
        made: TcpDoor = cls(application, {}, dispatcher=dispatcher, host=host, port=port, **LIMITS)
        return made


def answering_threads() -> Any:
    """Return threads that answer for several doors."""
    made = ThreadedTaskDispatcher()
    made.set_thread_count(THREADS)
    return made
