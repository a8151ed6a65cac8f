"""Queries on the wire: one line of JSON in, one line of JSON out. It imports little, so that clients start fast."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import SlurmschedError
from .query_arguments import AnswerRefused, NotYet

SCHEMA = "slurmsched/1"
SOCKET = "slurmsched.sock"
REQUEST_B = 4096
DELIVER = "deliver"
DELIVERY_B = 96 * 1024  #: of a request that holds a record of a node
ANSWER_B = 8 * 2**20
PURPOSE = "slurmsched-query/1"
"""The text inside a munge credential that no credential for anything else has."""


class DaemonUnreachable(SlurmschedError):
    """No daemon answers on its socket; callers explain how to start one, or read the database instead."""


def query(path: str | Path, request: Mapping[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Send *request* to the daemon's socket at *path* and return the answer, within *timeout_s* in all.

    Raises DaemonUnreachable where none answers, AnswerRefused with the daemon's own text where it refuses.
    """
    until_s = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(timeout_s)
            stream.connect(str(path))
            line = exchange(stream, line_of(request), until_s)
    except TimeoutError as error:
        raise DaemonUnreachable(f"the daemon on {path} gave no answer within {timeout_s:g} s") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise DaemonUnreachable(f"no daemon listens on {path}; is the slurmsched service running?") from error
    except BlockingIOError as error:
        raise DaemonUnreachable(f"the daemon on {path} has too many callers; ask again in a moment") from error
    except OSError as error:
        raise DaemonUnreachable(f"asking the daemon on {path}: {error.strerror or error}") from error
    return answer_in(line, f"the daemon on {path}")


def answer_in(line: bytes, daemon: str) -> dict[str, Any]:
    """Return the answer that *daemon* gave in *line*; AnswerRefused or DaemonUnreachable where it is none."""
    try:
        answer = parsed(line)
    except AnswerRefused as error:
        raise DaemonUnreachable(f"{daemon} broke off its answer after {len(line)} bytes") from error
    if not isinstance(answer, dict) or answer.get("schema") != SCHEMA:
        raise DaemonUnreachable(f"{daemon} does not use {SCHEMA}; do the versions differ?")
    if "error" in answer:
        raise (NotYet if answer.get("again") is True else AnswerRefused)(str(answer["error"]))
    return answer


def exchange(stream: socket.socket, request: bytes, until_s: float) -> bytes:
    """Send *request* and return the line that comes back, or its beginning; TimeoutError at *until_s* (monotonic)."""
    # A busy daemon replies and hangs up without reading the request: its reply can still be read.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.sendall(request)
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= ANSWER_B:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        stream.settimeout(left_s)
        chunk = stream.recv(2**16)
        if not chunk:
            break
        line += chunk
    return bytes(line)


def parsed(line: bytes) -> object:
    """Return the JSON value in *line*; AnswerRefused where there is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AnswerRefused("that is no JSON") from error


def refusal(text: str, *, again: bool = False) -> bytes:
    """Return the line that refuses a request because of *text*; *again*: the same request may be answered later."""
    return line_of({"schema": SCHEMA, "error": text, **({"again": True} if again else {})})


def line_of(message: Mapping[str, Any]) -> bytes:
    """Return *message* as a line of JSON."""
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER, which credentials name as their door."""
    return hashlib.sha256(certificate).hexdigest()


def payload_of(request: Mapping[str, Any], nonce: str, door: str) -> bytes:
    """Return what a munge credential for *request* holds.

    *nonce* is that of the connection's greeting, so that the credential is of no use on another one; *door* is the
    fingerprint of the server's certificate, empty without TLS.
    """
    return json.dumps({"for": PURPOSE, "door": door, "nonce": nonce, "request": request}).encode("ascii")
