"""The JOB argument of commands."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

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
