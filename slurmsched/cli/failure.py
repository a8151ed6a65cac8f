"""How a command ends when it cannot do what was asked."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from ..errors import SlurmschedError
from .terminal_text import clean_lines


class Failed(click.ClickException):
    """The world said no: exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """One message on standard error, safe for a terminal."""
        click.echo(f"slurmsched: {clean_lines(self.message)}", file=file, err=file is None)


def open_files_limit() -> str:
    """The limit of open files, and where it is set."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"the limit of this process is {limit} (ulimit -n, LimitNOFILE= of systemd)"


class NotFound(Failed):
    """There is nothing of that name or number: exit status 3."""

    exit_code = 3


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Turn what is wrong with words of the command line into wrong usage: exit status 2."""
    try:
        yield
    except SlurmschedError as error:
        raise click.UsageError(str(error)) from error
