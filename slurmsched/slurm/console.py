"""One place that runs Slurm's commands: argv only, always a time limit, two ways to fail."""

from __future__ import annotations

import os
import pwd
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from .. import interpreter
from ..errors import SlurmRefused, SlurmUnavailable

Called = Callable[[str, str, float, int], None]
"""Told of every command: its name, its result (ok, refused, unavailable), seconds, bytes read."""

_OURS_TO_SET = ("SQUEUE_", "SINFO_", "SPRIO_", "SACCT_", "SLURM_")


def _ignore(command: str, result: str, seconds: float, size_b: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Printed:
    """What a command left behind."""

    out: str
    err: str
    code: int


@dataclass(frozen=True)
class Console:
    """Runs the commands of one Slurm installation against one slurm.conf."""

    conf: str = ""  #: path of slurm.conf; empty means what the environment says
    bin_dir: str = ""
    prefix: tuple[str, ...] = ()  #: what each command runs through: chroot, setpriv, ...
    timeout_s: float = 10.0
    called: Called = _ignore
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def ask(self, argv: Sequence[str], extra: Mapping[str, str] | None = None) -> str:
        """What *argv* prints. Raises SlurmRefused where it exits non-zero, SlurmUnavailable where it cannot answer."""
        printed = self.run(argv, extra=extra)
        if printed.code:
            raise _failure(argv, printed)
        return printed.out

    def run(self, argv: Sequence[str], *, stdin: str = "", extra: Mapping[str, str] | None = None) -> Printed:
        """Run *argv* whatever it says; SlurmUnavailable only where nothing answers within the time limit."""
        began = perf_counter()
        try:
            done = subprocess.run(
                [*self.prefix, str(Path(self.bin_dir, argv[0]).absolute()) if self.bin_dir else argv[0], *argv[1:]],
                input=stdin.encode("utf-8", "surrogateescape"),
                capture_output=True,
                timeout=self.timeout_s,
                env=self.for_slurm() | dict(extra or {}),
                cwd=interpreter.DIRECTORY,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.called(argv[0], "unavailable", perf_counter() - began, 0)
            raise SlurmUnavailable(f"{argv[0]} did not answer: {error}") from error
        printed = Printed(_text(done.stdout), _text(done.stderr), done.returncode)
        self.called(argv[0], "refused" if done.returncode else "ok", perf_counter() - began, len(done.stdout))
        return printed

    def user(self) -> str:
        """The unix name Slurm sees us under."""
        if self.prefix:
            return replace(self, bin_dir="").ask(["id", "-un"]).strip()
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return str(os.geteuid())

    def for_slurm(self) -> dict[str, str]:
        """Our caller's environment, with slurm.conf named and without what changes the output of Slurm's commands."""
        kept = {k: v for k, v in self.environment.items() if k == "SLURM_CONF" or not k.startswith(_OURS_TO_SET)}
        if conf := self.conf or kept.get("SLURM_CONF", ""):
            kept["SLURM_CONF"] = os.path.abspath(conf)
        return kept | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}


def mark() -> str:
    """A fresh separator that no job name written before it was drawn can contain.

    A fixed one is forgeable through a job name; it starts with a sign because Slurm reads a leading digit as a width.
    """
    return "~" + secrets.token_urlsafe(7)


def _text(raw: bytes) -> str:
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
    return kind(f"{argv[0]}: {complaint[:500]}")
