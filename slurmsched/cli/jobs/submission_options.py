"""A hypothetical job: options of sbatch, or a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

from ..failure import wrong_usage

_Command = TypeVar("_Command", bound=Callable[..., Any])


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
