"""A door for other hosts with private jobs behind it, and clients that send what they like."""

from __future__ import annotations

import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from daemon_worlds import seen

from slurmsched.config import RemoteSettings
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_protocol import fingerprint, payload_of
from slurmsched.daemon.api.query_server import QueryWorkers
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.api.remote_access import remote_access
from slurmsched.daemon.api.remote_client import RemoteDaemon
from slurmsched.daemon.api.remote_server import RemoteServer
from slurmsched.daemon.profiles.profile_receiver import RecordIntake
from slurmsched.decide.rules import Rules
from slurmsched.explain import explain
from slurmsched.explain.why import why

JOBS = {7: "nobody", 8: "daemon", 9: "root"}
"""Pending jobs, by users that every machine has."""


def private_handlers(**sources: Any) -> QueryHandlers:
    """Queries about JOBS, of which everybody sees only their own."""
    known = Sources(
        sources.pop("status", lambda: {"mode": "observe"}),
        *(
            lambda view, plan, job_id, beside: why(view, plan, Rules(), job_id, beside),
            lambda view, plan, job_id, beside: explain.explain(view, plan, Rules(), job_id, beside),
            explain.queue,
            lambda job_id, since_s: [],
        ),
        private=lambda: True,
        **sources,
    )
    handlers = QueryHandlers(known, trusted=(0,))
    handlers.observe(seen(pending=JOBS))
    return handlers


@dataclass
class Door:
    """A server that is open until ``close``; *settings* may be changed before ``server.renew()``."""

    settings: RemoteSettings
    handlers: QueryHandlers
    unmunge: list[str] = field(default_factory=lambda: ["unmunge"])
    patience_s: float = 60.0
    results: Counter[str] = field(default_factory=Counter)
    intake: RecordIntake | None = None

    def open(self) -> Door:
        self.workers = QueryWorkers(self.handlers, turn_s=60.0)
        try:
            self.server = RemoteServer(
                lambda: remote_access(self.settings, self.unmunge),
                self.workers,
                take=self.intake.take if self.intake else None,
                counted=lambda result: self.results.update([result]),
                patience_s=self.patience_s,
            )
        except BaseException:
            self.workers.close()
            raise
        self.server.start()
        return self

    def close(self) -> None:
        self.server.close()
        self.workers.close()

    def daemon(self, ca: str = "", host: str = "127.0.0.1", **client: str) -> RemoteDaemon:
        return RemoteDaemon(f"{host}:{self.server.address[1]}", ca=ca, **client)


class Caller:
    """One connection, as a hostile client makes it: without checking whom it talks to."""

    def __init__(self, door: Door, certificate: tuple[str, str] | None = None) -> None:
        with ExitStack() as stack:
            plain = stack.enter_context(socket.socket())
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(60.0)
            plain.connect(door.server.address)
            self.stream: socket.socket = plain
            self.door = ""
            if door.settings.certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                if certificate:
                    context.load_cert_chain(*certificate)
                self.stream = stack.enter_context(context.wrap_socket(plain))
                self.door = fingerprint(self.stream.getpeercert(binary_form=True) or b"")
            self.lines = stack.enter_context(self.stream.makefile("rb"))
            greeting = self.lines.readline()
            if not greeting:
                raise ConnectionResetError("hung up on")
            self.nonce = json.loads(greeting)["nonce"]
            self._stack = stack.pop_all()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def send(self, line: bytes | dict[str, Any]) -> None:
        self.stream.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.lines.readline()))

    def payload(self, request: dict[str, Any], **changed: Any) -> bytes:
        return payload_of(request, **{"nonce": self.nonce, "door": self.door} | changed)


def asked(door: Door, envelope: bytes | dict[str, Any] | Callable[[Caller], Any], **known: Any) -> dict[str, Any]:
    """The answer to *envelope*, or to what it makes of the connection."""
    with Caller(door, **known) as caller:
        caller.send(envelope(caller) if callable(envelope) else envelope)
        return caller.answer()
