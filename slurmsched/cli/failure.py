"""Errors of commands, and their exit statuses."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from ..errors import SlurmschedError
from .terminal_text import clean_lines


class Failed(click.ClickException):
    """The request failed: exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one message on standard error, safe for a terminal."""
        click.echo(f"slurmsched: {clean_lines(self.message)}", file=file, err=file is None)


def open_files_limit() -> str:
    """Describe the limit of open files, and where it is set."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"the limit of this process is {limit} (ulimit -n, LimitNOFILE= of systemd)"


class NotFound(Failed):
    """There is no object of that name or number: exit status 3."""

    exit_code = 3


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Turn errors in command-line arguments into usage errors: exit status 2."""
    try:
        yield
    except SlurmschedError as error:
        raise click.UsageError(str(error)) from error
