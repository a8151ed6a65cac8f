"""Connections to PostgreSQL with a client-side time limit, which holds whatever fails: server, host or network."""

from __future__ import annotations

import math
from collections.abc import Callable
from selectors import DefaultSelector
from typing import Any

import psycopg
from psycopg.waiting import Ready


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; the connection is closed."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection on which the server may be silent for ``limit_s``: in a statement, a commit or a rollback.

    The server's own time limits hold only while its process runs, and TCP's only while its kernel does not answer. A
    connection that exceeds the limit is closed; the server rolls back its transaction once its process continues.
    """

    limit_s = math.inf
    fell_silent: Callable[[], None] = staticmethod(lambda: None)

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Run *gen* to its end; psycopg calls this for every operation on a connection."""
        try:
            wanted = next(gen)
            with DefaultSelector() as selector:
                key = selector.register(self.pgconn.socket, wanted)
                while True:
                    found = selector.select(self.limit_s if math.isfinite(self.limit_s) else None)
                    if not found:
                        self.pgconn.finish()
                        self.fell_silent()
                        raise NoAnswer(f"no answer within {self.limit_s:g} s")
                    wanted = gen.send(Ready(found[0][1]))
                    if wanted != key.events:
                        key = selector.modify(self.pgconn.socket, wanted)
        except StopIteration as end:
            return end.value


def connect(limit_s: float, fell_silent: Callable[[], None], *arguments: Any, **parameters: Any) -> PatientConnection:
    """Connect to a server that may be silent for *limit_s*, and for ``connect_timeout`` during the connection.

    *fell_silent* is called when the server exceeds either limit.
    """
    try:
        connection = PatientConnection.connect(*arguments, **parameters)
    except psycopg.errors.ConnectionTimeout:
        fell_silent()
        raise
    connection.limit_s, connection.fell_silent = limit_s, fell_silent
    return connection
