"""The arguments that name a job: one of the cluster, or a hypothetical one by options of sbatch or a script."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import click

from ..failure import wrong_usage

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILES = frozenset({"bbf", "export-file"})
_IDS: dict[str, tuple[Callable[[int], object], Callable[[str], object]]] = {
    "uid": (pwd.getpwuid, pwd.getpwnam),
    "gid": (grp.getgrgid, grp.getgrnam),
}
_SHAPE = re.compile(r"([1-9][0-9]{0,9})(?:_([0-9]{1,9})|\+([0-9]{1,4}))?")


@dataclass(frozen=True)
class JobName:
    """A job as typed: ``123``, a task ``123_4`` of an array, a part ``123+0`` of a heterogeneous job."""

    text: str
    job_id: int  #: the id in Slurm's tables: the array's id for a task, leader plus offset for a part
    task_id: int | None = None

    def __str__(self) -> str:
        return self.text


class JobType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """The type of a JOB argument."""

    name = "JOB"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> JobName:
        """Parse *value* into a job; a usage error where it is not a job id."""
        if isinstance(value, JobName):
            return value
        shape = _SHAPE.fullmatch(str(value))
        if shape is None:
            self.fail(f"{value!r} is no job id; accepted: 123, 123_4, 123+0", param, ctx)
        return JobName(shape[0], int(shape[1]) + int(shape[3] or 0), None if shape[2] is None else int(shape[2]))


job_argument = click.argument("job", type=JobType(), metavar="JOB")


def job_options(command: _Command) -> _Command:
    """``--check OPTIONS`` and ``--script FILE``, as *options* and *script*."""
    check = click.option(
        "--check",
        "options",
        metavar="OPTIONS",
        help="The sbatch options of a hypothetical job, as one word. SBATCH_* variables count as with sbatch.",
    )
    script = click.option(
        "--script", type=click.File("rb"), help="The script of a hypothetical job; - reads standard input."
    )
    return check(script(command))


def options_of(options: str | None, script: BinaryIO | None) -> str | None:
    """Return the hypothetical job's options as sbatch settles them: script, environment, command line.

    None without a job.
    """
    return None if options is None and script is None else all_options_of([options or ""], script)[0]


def all_options_of(variants: Sequence[str], script: BinaryIO | None) -> list[str]:
    """Return the options of each variant of a job, as sbatch settles them; the *script* is read once."""
    from ...cluster.text.sbatch import LONGEST_B, as_text, read_job

    body = None if script is None else script.read(LONGEST_B + 1)
    name = os.path.basename(getattr(script, "name", "-") or "-") if script is not None else "-"
    with wrong_usage():
        jobs = [read_job(body, os.environ, options) for options in variants]
        for job in jobs:
            _check_files_and_ids(job)
            if "nodefile" in job:
                job["nodelist"] = _nodes_of_file(job.pop("nodefile"))
    for job in jobs if name not in ("-", "<stdin>") else ():
        job.setdefault("job-name", name)
    return [as_text(job) or "sbatch" for job in jobs]


def _check_files_and_ids(job: Mapping[str, str]) -> None:
    """Refuse files that cannot be read, and users and groups that this host does not know, with sbatch's words."""
    from ...cluster.text.sbatch_values import refuse

    readable = {name: os.path.isfile(job[name]) and os.access(job[name], os.R_OK) for name in _FILES & job.keys()}
    for name in sorted(name for name, can in readable.items() if not can):
        words = "Could not open user environment file" if name == "export-file" else "Invalid --bbf specification:"
        refuse(f"{words} {job[name][:80]}")
    for name, (by_number, by_name) in _IDS.items():
        text = job.get(name, "").removeprefix("+")
        if name not in job or os.geteuid():  # only root may say it
            continue
        try:
            by_number(int(text)) if text.isdecimal() else by_name(text)
        except (KeyError, OverflowError, ValueError):
            refuse(f"Invalid --{name} specification: {job[name][:80]!r}")


def _nodes_of_file(name: str) -> str:
    """Return the nodes in a file of --nodefile as a host list; ConfigError with sbatch's words where there are none."""
    from ...cluster.text.sbatch import LONGEST_B
    from ...cluster.text.sbatch_values import refuse

    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].strip() for line in file.read(LONGEST_B).splitlines()]
    except OSError as error:
        refuse(f"Invalid --nodefile node file: {name[:80]!r}: {error.strerror}")
    return ",".join(filter(None, lines)) or refuse(f"Invalid --nodefile node file: {name[:80]!r}: no nodes in it")


def not_understood_line(parts: Sequence[str]) -> list[str]:
    """Return the first line of an answer that leaves out *parts* of the request; none without any."""
    if not parts:
        return []
    return [f"Not understood, so not counted in this answer: {', '.join(parts)}."]
