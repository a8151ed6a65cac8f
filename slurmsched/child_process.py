"""A module of ours in a process of its own, which answers requests one after the other."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Lock
from typing import Any

from . import interpreter
from .errors import SlurmschedError

PATIENCE_S = 5.0
"""The longest wait for the request before: the daemon's clients give up after ten seconds."""


NICE = 10
"""The niceness of such a process: the daemon's cycles come first."""


class _Packer(ForkingPickler):
    """Pickles copies of what objects hold, since other threads compute parts of the same objects meanwhile."""

    def reducer_override(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind.__reduce_ex__ is not object.__reduce_ex__ or not kind.__flags__ & _OF_PYTHON:
            return NotImplemented
        make, arguments, state, *rest = value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        return make, arguments, state.copy() if isinstance(state, dict) else state, *rest


_OF_PYTHON = 1 << 9
"""The flag of classes that a class statement made."""


def packed(request: Any) -> memoryview:
    """Return *request* as a child process reads it; other threads may use its parts meanwhile."""
    return _Packer.dumps(request)


class ChildFailed(SlurmschedError):
    """A process that gave no answer; the text says why."""


class ChildProcess:
    """The process that runs *module*, started when it is first needed; it makes a *product*, a noun for messages.

    It reads requests from the socket whose number is its argument, and answers each. A process that died, or took too
    long, is replaced at the next request.
    """

    def __init__(
        self, module: str, product: str, patience_s: float = PATIENCE_S, variables: Mapping[str, str] | None = None
    ) -> None:
        self._module, self._product, self._patience_s = module, product, patience_s
        self._variables = variables or {}  # of its environment, beside those of this process
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._lock, self._closed = Lock(), False

    def ask(self, request: Any, timeout_s: float) -> Any:
        """Return the answer to *request*; ChildFailed where there is none within *timeout_s*."""
        if not self._lock.acquire(timeout=self._patience_s):
            raise ChildFailed(
                f"another {self._product} has been running for {self._patience_s:g} s; ask again in a moment"
            )
        try:
            if self._closed:
                raise ChildFailed("the daemon is stopping")
            try:
                connection = (self._child or self._started())[1]
            except OSError as trouble:
                raise ChildFailed(f"the process that makes a {self._product} cannot be started: {trouble}") from trouble
            try:
                connection.send_bytes(packed(request))
                if connection.poll(timeout_s):
                    return connection.recv()
            except (OSError, EOFError) as trouble:
                self._end()
                raise ChildFailed(f"the process that makes a {self._product} has died") from trouble
            self._end()
            raise ChildFailed(f"a {self._product} took longer than {timeout_s:g} s")
        finally:
            self._lock.release()

    @property
    def started(self) -> bool:
        """True if the next request needs no new process."""
        return self._child is not None

    def close(self) -> None:
        """Stop the process, also in the middle of an answer."""
        self._closed = True
        child = self._child
        if child is not None:
            child[0].kill()
        with self._lock:
            self._end()

    def _started(self) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                interpreter.command(self._module, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=2,  # libraries print there, and a command's own answer may be JSON
                pass_fds=(theirs.fileno(),),
                env=interpreter.environment(os.environ | self._variables),
                cwd=interpreter.DIRECTORY,
                start_new_session=True,  # signals of a terminal are for the daemon
            )
            connection = Connection(ours.detach())
        self._child = process, connection
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            process, connection = self._child
            connection.close()
            process.kill()
            process.wait()
            self._child = None


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer the requests of the parent, in the process that ``ChildProcess`` started, until the parent ends."""
    os.nice(NICE)
    parent = Connection(int(sys.argv[1]))
    while True:
        try:
            request = parent.recv()
        except EOFError:
            return
        try:
            parent.send(answer(request))
        except BrokenPipeError:
            return
