"""The query socket: one JSON line in, one JSON line out; a query changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import SlurmschedError
from .listener import Listener, Peer, Turns, started_threads, unix_server
from .query_arguments import AnswerRefused
from .query_handlers import SCHEMA, QueryHandlers, takes_long

logger = logging.getLogger(__name__)

SOCKET = "slurmsched.sock"
REQUEST_B = 4096
ANSWER_B = 8 * 2**20
WORKERS = 2
MOST = 128  #: clients at a time


class DaemonUnreachable(SlurmschedError):
    """No daemon answers on its socket; callers explain how to start one, or read the database instead."""


class QueryServer:
    """Serves *questions* on ``run_dir``/slurmsched.sock to every user of the machine; ConfigError if it cannot.

    The kernel identifies the client (SO_PEERCRED). Work goes to two threads beside the cycle for any number of clients,
    and slow queries to a third one: each user has one of these in progress at a time, and the next one waits for at
    most *turn_s*.
    """

    def __init__(
        self, run_dir: str | Path, questions: QueryHandlers, *, patience_s: float = 5.0, turn_s: float = 2.5
    ) -> None:
        self._path = Path(run_dir) / SOCKET
        self._questions = questions
        self._turn_s = turn_s
        self._listener = Listener(
            unix_server(self._path, 0o666),
            self._respond,
            name="answers",
            busy=_line(_refusal("too many are asking at once; ask again in a moment")),
            too_long=lambda: _line(_refusal(f"a question has at most {REQUEST_B} bytes")),
            request_b=REQUEST_B,
            most=MOST,
            most_per_peer=8,
            patience_s=patience_s,
        )
        self._workers = started_threads(WORKERS, "answers")
        self._slow = Turns(1, "slow-answers")

    def start(self) -> None:
        """Start to answer."""
        self._listener.start()

    def close(self) -> None:
        """Stop, and remove the socket file."""
        self._listener.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._slow.close()
        self._path.unlink(missing_ok=True)

    async def _respond(self, line: bytes, peer: Peer) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            request = _parse(line)
        except AnswerRefused as error:
            return _line(_refusal(str(error)))
        if not takes_long(request):
            return await loop.run_in_executor(self._workers, self._answer, request, peer.uid)
        try:
            return await self._slow.run(peer, lambda: self._answer(request, peer.uid), self._turn_s)
        except TimeoutError:
            return _line(_refusal("your other questions of this kind are still being worked on; ask again in a moment"))

    def _answer(self, request: object, uid: int) -> bytes:
        try:
            answer = _line(self._questions.answer(request, uid))
        except SlurmschedError as error:
            return _line(_refusal(str(error)))
        except MemoryError:
            return _line(_refusal("the daemon is short of memory; ask again in a moment"))
        except Exception:  # a query must never end the answering thread; the client gets an error, the log has more
            logger.exception("a bug in answering %.200r", request)
            return _line(_refusal("a bug in the daemon; its log has details"))
        return (
            answer if len(answer) <= ANSWER_B else _line(_refusal("the answer is too long; ask with a smaller limit"))
        )


def query(path: str | Path, request: Mapping[str, Any], timeout_s: float = 10.0) -> dict[str, Any]:
    """Send *request* to the daemon's socket at *path* and return the answer, within *timeout_s* in all.

    Raises DaemonUnreachable where none answers, AnswerRefused with the daemon's own text where it refuses.
    """
    until_s = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(timeout_s)
            stream.connect(str(path))
            line = _exchange(stream, _line(request), until_s)
    except TimeoutError as error:
        raise DaemonUnreachable(f"the daemon on {path} gave no answer within {timeout_s:g} s") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise DaemonUnreachable(f"no daemon listens on {path}; is the slurmsched service running?") from error
    except BlockingIOError as error:
        raise DaemonUnreachable(f"the daemon on {path} has too many callers; ask again in a moment") from error
    except OSError as error:
        raise DaemonUnreachable(f"asking the daemon on {path}: {error.strerror or error}") from error
    try:
        answer = _parse(line)
    except AnswerRefused as error:
        raise DaemonUnreachable(f"the daemon on {path} broke off its answer after {len(line)} bytes") from error
    if not isinstance(answer, dict) or answer.get("schema") != SCHEMA:
        raise DaemonUnreachable(f"the program that listens on {path} does not use {SCHEMA}; do the versions differ?")
    if "error" in answer:
        raise AnswerRefused(str(answer["error"]))
    return answer


def _exchange(stream: socket.socket, request: bytes, until_s: float) -> bytes:
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


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AnswerRefused("that is no JSON") from error


def _refusal(text: str) -> dict[str, Any]:
    return {"schema": SCHEMA, "error": text}


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
