"""A job to ask about that nobody has submitted: options of sbatch, or a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

from ..failure import wrong_usage

_Command = TypeVar("_Command", bound=Callable[..., Any])


def job_options(command: _Command) -> _Command:
    """``--check OPTIONS`` and ``--script FILE``, as *options* and *script*."""
    check = click.option(
        "--check", "options", metavar="OPTIONS", help="The options of sbatch, as one word, of a job to ask about."
    )
    script = click.option(
        "--script", type=click.File(errors="replace"), help="A job script to ask about; - reads standard input."
    )
    return check(script(command))


def options_of(options: str | None, script: TextIO | None) -> str | None:
    """The options of the job to ask about, those of the command line before those of the script; None for no job."""
    from ...cluster.text.sbatch import as_text, read_options, read_script

    with wrong_usage():
        read = read_options(options or "")
        if script is None:
            return options
        return as_text(read_script(script.read()) | read) or "sbatch"
