"""The parent's side of ``pyslurm_process``: one child process that may hang, crash or be missing without harm."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter
from typing import IO, Any

from ... import interpreter
from ...errors import SlurmError, SlurmRefused, SlurmUnavailable
from .command_runner import Called, CommandRunner, unreachable

START_S = 30.0
"""The start-up time limit of Python, pyslurm and libslurm, with a cold file cache."""


class PyslurmMissing(SlurmError):
    """pyslurm cannot be used here; the message gives the reason."""


@dataclass
class Worker:
    """A process that uses pyslurm, started on the first call and again after a failure; it ends with its parent."""

    console: CommandRunner
    called: Called
    _child: _Child | None = None

    def start(self) -> str:
        """Start a new process on the present slurm.conf and return pyslurm's version; PyslurmMissing on failure."""
        self.stop()
        child = _Child.started(self.console)
        outcome, reply, _ = child.receive(self.console.left.of(START_S)) or ("broken", child.last_words(), 0)
        if outcome != "ok":
            child.end()
            raise PyslurmMissing(str(reply))
        self._child = child
        return str(reply)

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._child is not None:
            self._child.end()
        self._child = None

    def call(self, verb: str, *arguments: object) -> Any:
        """Return the process's answer; SlurmRefused where Slurm refuses, SlurmUnavailable without an answer in time."""
        if self._child is None:
            self._restart()
        child = self._child
        assert child is not None
        began, name = perf_counter(), f"pyslurm {verb}"
        answer = child.receive(self.console.left.of(self.console.timeout_s)) if child.send((verb, arguments)) else None
        took_s = perf_counter() - began
        if answer is None:
            words = child.last_words()
            self.stop()
            self.called(name, "unavailable", took_s, 0)
            raise SlurmUnavailable(f"{name} gave no answer within {self.console.timeout_s:g} s: {words}")
        outcome, reply, size_b = answer
        if outcome == "ok":
            self.called(name, "ok", took_s, size_b)
            return reply
        away = outcome == "broken" or unreachable(str(reply))
        self.called(name, "unavailable" if away else "refused", took_s, size_b)
        raise (SlurmUnavailable if away else SlurmRefused)(f"{name}: {reply}")

    def _restart(self) -> None:
        try:
            self.start()
        except PyslurmMissing as error:
            raise SlurmUnavailable(f"pyslurm: {error}") from error


class _Child:
    """A process and the connection to it, closed together."""

    def __init__(self, process: subprocess.Popen[bytes], line: Connection, complaints: IO[bytes]) -> None:
        self._process, self._line, self._complaints = process, line, complaints
        self.end = weakref.finalize(self, _end, process, line, complaints)

    @classmethod
    def started(cls, console: CommandRunner) -> _Child:
        """Start ``pyslurm_process`` with the prefix and environment of *console*."""
        ours, theirs = socket.socketpair()
        complaints = tempfile.TemporaryFile()  # noqa: SIM115  _end closes it
        argv = [
            *console.prefix,
            *interpreter.command("slurmsched.slurm.adapters.pyslurm_process", str(theirs.fileno())),
        ]
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=(theirs.fileno(),),
                env=interpreter.environment(console.for_slurm()),
                cwd=interpreter.DIRECTORY,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            complaints.close()
            raise PyslurmMissing(f"its process cannot be started: {error}") from error
        finally:
            theirs.close()
        return cls(process, Connection(ours.detach()), complaints)

    def send(self, question: object) -> bool:
        """Send *question*; return False where the process is gone."""
        try:
            self._line.send(question)
        except OSError:
            return False
        return True

    def receive(self, within_s: float) -> tuple[str, Any, int] | None:
        """Return outcome, value and size in bytes of the next answer; None where the process is gone or too slow."""
        try:
            if self._line.poll(within_s):
                answer = self._line.recv_bytes()
                outcome, value = pickle.loads(answer)  # noqa: S301  from a child of ours alone
                return str(outcome), value, len(answer)
        except (EOFError, OSError):
            return None
        return None

    def last_words(self) -> str:
        """Return the last line that libslurm wrote to its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        size_b = os.fstat(self._complaints.fileno()).st_size
        self._complaints.seek(max(0, size_b - 500))
        return self._complaints.read().decode("utf-8", "replace").strip().rpartition("\n")[2] or "it said nothing"


def _end(process: subprocess.Popen[bytes], line: Connection, complaints: IO[bytes]) -> None:
    line.close()
    process.kill()
    process.wait()
    complaints.close()
