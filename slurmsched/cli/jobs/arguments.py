"""The arguments that name a job: one of the cluster, or a hypothetical one by options of sbatch or a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

import click

from ..failure import wrong_usage

_Command = TypeVar("_Command", bound=Callable[..., Any])
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
        "--check", "options", metavar="OPTIONS", help="The sbatch options of a hypothetical job, as one word."
    )
    script = click.option(
        "--script", type=click.File(errors="replace"), help="The script of a hypothetical job; - reads standard input."
    )
    return check(script(command))


def options_of(options: str | None, script: TextIO | None) -> str | None:
    """Return the hypothetical job's options, the command line's before the script's; None without a job."""
    from ...cluster.text.sbatch import as_text, read_options, read_script

    with wrong_usage():
        read = read_options(options or "")
        if script is None:
            return options
        return as_text(read_script(script.read()) | read) or "sbatch"
