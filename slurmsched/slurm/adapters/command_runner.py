"""Run Slurm's commands: by argv without a shell, always with a time limit, with two kinds of failure."""

from __future__ import annotations

import math
import os
import pwd
import re
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from ... import interpreter
from ...errors import SlurmRefused, SlurmUnavailable
from .pipe_exchange import AnswerTooLong, talk

Called = Callable[[str, str, float, int], None]
"""A callback after every command, with its name, its result (ok, refused, unavailable), seconds and bytes read."""

ANSWER_B = 256 * 2**20
"""The largest accepted answer, in bytes; squeue prints some 700 per job."""

_OURS_TO_SET = ("SQUEUE_", "SINFO_", "SPRIO_", "SACCT_", "SCONTROL_", "SLURM_")

_THIS_CLUSTER = {f"{command}_LOCAL": "1" for command in ("SQUEUE", "SINFO", "SPRIO", "SACCT", "SCONTROL")}
"""Keeps the commands at this cluster where it is in a federation (FederationParameters=fed_display)."""


def _ignore(command: str, result: str, seconds: float, size_b: int) -> None:
    """Do nothing: the default callback."""


@dataclass(frozen=True)
class Printed:
    """The outputs and the exit status of a command."""

    out: str
    err: str
    code: int


class TimeLeft:
    """The time left for all commands together; unlimited until the process shuts down and bounds it."""

    def __init__(self) -> None:
        self._until_s = math.inf

    def bound(self, seconds: float) -> None:
        """Let the time run out *seconds* from now."""
        self._until_s = perf_counter() + seconds

    def of(self, seconds: float) -> float:
        """Return *seconds*, or the time left if that is less."""
        return max(0.0, min(seconds, self._until_s - perf_counter()))


@dataclass(frozen=True)
class CommandRunner:
    """Runs the commands of one Slurm installation against one slurm.conf."""

    conf: str = ""  #: path of slurm.conf; empty means what the environment says
    bin_dir: str = ""
    prefix: tuple[str, ...] = ()  #: the wrapper of each command: chroot, setpriv, ...
    timeout_s: float = 10.0
    answer_b: int = ANSWER_B
    called: Called = _ignore
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    left: TimeLeft = field(default_factory=TimeLeft)

    def query(self, argv: Sequence[str], extra: Mapping[str, str] | None = None) -> str:
        """Return the output of *argv*; SlurmRefused on a non-zero exit, SlurmUnavailable where it cannot answer."""
        printed = self.run(argv, extra=extra)
        if printed.code:
            raise _failure(argv, printed)
        return printed.out

    def run(self, argv: Sequence[str], *, stdin: str = "", extra: Mapping[str, str] | None = None) -> Printed:
        """Run *argv* and accept any exit status; SlurmUnavailable where it cannot run or exceeds a limit."""
        began = perf_counter()
        try:
            out, err, code = self._exchange(argv, stdin.encode("utf-8", "surrogateescape"), extra or {})
            printed = Printed(_text(out), _text(err), code)
        except (OSError, MemoryError, subprocess.TimeoutExpired, AnswerTooLong) as error:
            self.called(argv[0], "unavailable", perf_counter() - began, 0)
            # The command line with its marks would not help the reader of this message.
            raise SlurmUnavailable(f"{argv[0]} {self._failed(error)}") from error
        self.called(argv[0], "refused" if code else "ok", perf_counter() - began, len(out))
        return printed

    def _exchange(self, argv: Sequence[str], text: bytes, extra: Mapping[str, str]) -> tuple[bytearray, bytearray, int]:
        """Send *text* to *argv*; return its two outputs and its exit status. A failure kills the process."""
        until_s = perf_counter() + self.left.of(self.timeout_s)
        with subprocess.Popen(
            [*self.prefix, str(Path(self.bin_dir, argv[0]).absolute()) if self.bin_dir else argv[0], *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.for_slurm() | dict(extra),
            cwd=interpreter.DIRECTORY,
        ) as process:
            try:
                out, err = talk(process, text, until_s, self.answer_b)
                return out, err, process.wait(max(0.0, until_s - perf_counter()))
            except BaseException:
                process.kill()
                raise

    def _failed(self, error: Exception) -> str:
        """Describe *error* as the predicate of a sentence."""
        if isinstance(error, subprocess.TimeoutExpired):
            return f"did not answer within {self.timeout_s:g} s" if self.left.of(1.0) else "had no time left to answer"
        if isinstance(error, AnswerTooLong):
            return f"answered with more than {self.answer_b / 2**20:g} MiB"
        if isinstance(error, OSError):
            return f"cannot be run: {error.strerror}"
        return "gave an answer that does not fit into memory"

    def user(self) -> str:
        """Return the Unix user name under which Slurm sees us."""
        if self.prefix:
            return replace(self, bin_dir="").query(["id", "-un"]).strip()
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return str(os.geteuid())

    def for_slurm(self) -> dict[str, str]:
        """Return our environment with slurm.conf named and without variables that change the commands' output."""
        environment = {k: v for k, v in self.environment.items() if k == "SLURM_CONF" or not k.startswith(_OURS_TO_SET)}
        if conf := self.conf or environment.get("SLURM_CONF", ""):
            environment["SLURM_CONF"] = os.path.abspath(conf)
        return environment | _THIS_CLUSTER | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}


def mark() -> str:
    """Draw a random separator, which no job name written earlier can contain.

    A job name could forge a fixed one. It starts with a sign because Slurm reads a leading digit as a width.
    """
    return "~" + secrets.token_urlsafe(7)


_MARK = re.compile(r"~[\w-]{10}")


def _text(raw: bytearray) -> str:
    return raw.decode("utf-8", "surrogateescape")


_NO_ANSWER = (
    "unable to contact slurm",
    "timed out",
    "connection refused",
    "zero bytes were transmitted",
    "slurm_persist_conn",
    "unable to establish",
    "transport endpoint",
    "slurmdbd: sending",
)
"""Parts of the messages, in lower case, that Slurm's commands print where a Slurm daemon is away."""


def unreachable(complaint: str) -> bool:
    """Return True if a command's complaint means that a Slurm daemon did not answer, rather than that it refused."""
    return any(sign in complaint.lower() for sign in _NO_ANSWER)


def _failure(argv: Sequence[str], printed: Printed) -> SlurmRefused | SlurmUnavailable:
    complaint = printed.err.strip() or printed.out.strip() or f"exit status {printed.code}"
    kind = SlurmUnavailable if unreachable(complaint) else SlurmRefused
    return kind(f"{argv[0]}: {_MARK.sub('', complaint[:500])}")
