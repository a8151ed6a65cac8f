"""Processes that a nursery forks (nursery.py), seen as those of ``subprocess``."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from processor_time import elsewhere_s

from slurmsched.lab.processes import MARK
from slurmsched.lab.users import nobody_gid

PROGRAM = Path(__file__).with_name("nursery.py")
OTHER = 65534  #: a user's number that no lab has
ANY_LAB = "-" * 32  #: room for the mark of a lab, which has ten characters


@cache
def open_to_others() -> bool:
    """Whether any user may run this Python with all that we need."""
    as_other = ["setpriv", f"--reuid={OTHER}", f"--regid={nobody_gid()}", "--clear-groups"]
    words = "import slurmsched.cli.app, numpy, psycopg"
    test = [*as_other, sys.executable, "-c", words]
    return subprocess.run(test, cwd="/", capture_output=True, timeout=60).returncode == 0


class Nursery:
    """A Python that has read our modules, and forks one that goes on for each process asked for.

    Each of these belongs to its lab, whose mark is in its environment: with the lab it is taken down.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        """Start it by *command*, the command line of a Python, which gets its number of a socket as the last word."""
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [*command, str(number)], env=environment, cwd=directory, pass_fds=[number], stdin=subprocess.DEVNULL
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        errors: int,
        promises: bool = False,
    ) -> Forked:
        """Start ``python WORDS``, which may decide about *promises*; *output* and *errors* are open files."""
        request = {
            "start": [*words],
            "environment": {**environment},
            "directory": str(directory),
            "promises": promises,
        }
        return Forked(self._ask(request, output, errors)["pid"], [*words], self)

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        timeout_s: float = 600.0,
        promises: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """``python WORDS`` to its end, as ``start`` has it."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = self.start(words, environment, directory, output.fileno(), errors.fileno(), promises)
            try:
                status = process.wait(timeout_s)
            finally:
                process.kill()
            said = [(file.seek(0), file.read())[1] for file in (output, errors)]
        return subprocess.CompletedProcess([*words], status, *said)

    def close(self) -> None:
        """Let it end, whose time counts then as that of every process that was waited for."""
        self._socket.close()
        elsewhere_s.pop(self._process.pid, None)
        self._process.wait(60.0)

    def wait(self, pid: int) -> int:
        """The exit status of a process that is over."""
        answer = self._ask({"wait": pid})
        elsewhere_s[self._process.pid] = answer["took_s"]
        return os.waitstatus_to_exitcode(answer["status"])

    def _ask(self, request: dict[str, Any], *files: int) -> dict[str, Any]:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            answer: dict[str, Any] = json.loads(self._socket.recv(1 << 16))
        return answer


@cache
def for_all_labs() -> Nursery:
    """The one whose processes are of our own user, and may belong to every lab."""
    more = {MARK: ANY_LAB, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return Nursery([sys.executable, "-P", str(PROGRAM)], os.environ | more, Path("/"))


@dataclass
class Forked:
    """As much of Popen as the tests need."""

    pid: int
    args: list[str]
    nursery: Nursery
    returncode: int | None = None
    _over: int = field(init=False)

    def __post_init__(self) -> None:
        self._over = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        return self._waited(0.0)

    def wait(self, timeout: float | None = None) -> int:
        if self._waited(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _waited(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._over, select.POLLIN)
            if poll.poll(None if timeout_s is None else timeout_s * 1000):
                self.returncode = self.nursery.wait(self.pid)
                os.close(self._over)
        return self.returncode


def as_text(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    """The same with what was written as text."""
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
