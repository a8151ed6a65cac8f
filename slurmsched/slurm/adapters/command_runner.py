"""One place that runs Slurm's commands: argv only, always a time limit, two ways to fail."""

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
"""Told of every command: its name, its result (ok, refused, unavailable), seconds, bytes read."""

ANSWER_B = 256 * 2**20
"""Most bytes of an answer; squeue's has some 700 for each job."""

_OURS_TO_SET = ("SQUEUE_", "SINFO_", "SPRIO_", "SACCT_", "SLURM_")


def _ignore(command: str, result: str, seconds: float, size_b: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Printed:
    """What a command left behind."""

    out: str
    err: str
    code: int


class TimeLeft:
    """The time left for all commands together; endless until it is bounded, at the end of a process."""

    def __init__(self) -> None:
        self._until_s = math.inf

    def bound(self, seconds: float) -> None:
        """Let the time be over *seconds* from now."""
        self._until_s = perf_counter() + seconds

    def of(self, seconds: float) -> float:
        """So much of *seconds* as is left."""
        return max(0.0, min(seconds, self._until_s - perf_counter()))


@dataclass(frozen=True)
class CommandRunner:
    """Runs the commands of one Slurm installation against one slurm.conf."""

    conf: str = ""  #: path of slurm.conf; empty means what the environment says
    bin_dir: str = ""
    prefix: tuple[str, ...] = ()  #: what each command runs through: chroot, setpriv, ...
    timeout_s: float = 10.0
    answer_b: int = ANSWER_B
    called: Called = _ignore
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    left: TimeLeft = field(default_factory=TimeLeft)

    def query(self, argv: Sequence[str], extra: Mapping[str, str] | None = None) -> str:
        """What *argv* prints. Raises SlurmRefused where it exits non-zero, SlurmUnavailable where it cannot answer."""
        printed = self.run(argv, extra=extra)
        if printed.code:
            raise _failure(argv, printed)
        return printed.out

    def run(self, argv: Sequence[str], *, stdin: str = "", extra: Mapping[str, str] | None = None) -> Printed:
        """Run *argv* whatever it says; SlurmUnavailable only where nothing answers within the time limit."""
        began = perf_counter()
        try:
            out, err, code = self._exchange(argv, stdin.encode("utf-8", "surrogateescape"), extra or {})
            printed = Printed(_text(out), _text(err), code)
        except (OSError, MemoryError, subprocess.TimeoutExpired, AnswerTooLong) as error:
            self.called(argv[0], "unavailable", perf_counter() - began, 0)
            # Without the command line and its marks, which whoever reads of the failure has no use for.
            raise SlurmUnavailable(f"{argv[0]} {self._failed(error)}") from error
        self.called(argv[0], "refused" if code else "ok", perf_counter() - began, len(out))
        return printed

    def _exchange(self, argv: Sequence[str], text: bytes, extra: Mapping[str, str]) -> tuple[bytearray, bytearray, int]:
        """What *argv* given *text* writes to its two outputs, and its exit status; it is killed where that fails."""
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
        """What went wrong, as the rest of a sentence."""
        if isinstance(error, subprocess.TimeoutExpired):
            return f"did not answer within {self.timeout_s:g} s" if self.left.of(1.0) else "had no time left to answer"
        if isinstance(error, AnswerTooLong):
            return f"answered with more than {self.answer_b / 2**20:g} MiB"
        if isinstance(error, OSError):
            return f"cannot be run: {error.strerror}"
        return "gave an answer that does not fit into memory"

    def user(self) -> str:
        """The unix name Slurm sees us under."""
        if self.prefix:
            return replace(self, bin_dir="").query(["id", "-un"]).strip()
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return str(os.geteuid())

    def for_slurm(self) -> dict[str, str]:
        """Our caller's environment, with slurm.conf named and without what changes the output of Slurm's commands."""
        environment = {k: v for k, v in self.environment.items() if k == "SLURM_CONF" or not k.startswith(_OURS_TO_SET)}
        if conf := self.conf or environment.get("SLURM_CONF", ""):
            environment["SLURM_CONF"] = os.path.abspath(conf)
        return environment | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}


def mark() -> str:
    """A fresh separator that no job name written before it was drawn can contain.

    A fixed one is forgeable through a job name; it starts with a sign because Slurm reads a leading digit as a width.
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
"""What Slurm's commands say, in lower case, where a daemon of Slurm is away."""


def unreachable(complaint: str) -> bool:
    """Whether a command's complaint means that a Slurm daemon did not answer, rather than that it said no."""
    return any(sign in complaint.lower() for sign in _NO_ANSWER)


def _failure(argv: Sequence[str], printed: Printed) -> SlurmRefused | SlurmUnavailable:
    complaint = printed.err.strip() or printed.out.strip() or f"exit status {printed.code}"
    kind = SlurmUnavailable if unreachable(complaint) else SlurmRefused
    return kind(f"{argv[0]}: {_MARK.sub('', complaint[:500])}")
