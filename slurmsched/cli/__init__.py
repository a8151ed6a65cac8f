"""The ``slurmsched`` command, which builds all parts and connects them."""

from __future__ import annotations

import os
import sys

import click

from .. import __version__
from ..interpreter import collect_garbage_rarely, limit_blas_threads
from .app import App
from .command_table import COMMANDS
from .lazy import LazyGroup
from .logs import LEVELS, log_to_stderr

limit_blas_threads()  # commands import numpy later
collect_garbage_rarely()

EPILOG = "Exit status: 0 fine, 1 request failed, 2 wrong usage, 3 nothing found or no such job."


@click.group(
    cls=LazyGroup, commands_at=COMMANDS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--config",
    "config",
    metavar="FILE",
    help="Settings file; else $SLURMSCHED_CONFIG, else /etc/slurmsched/slurmsched.toml.",
)
@click.option("--log-level", type=click.Choice(LEVELS), help="How much to log to standard error.")
@click.version_option(__version__, prog_name="slurmsched")
@click.pass_context
def main(context: click.Context, config: str | None, log_level: str | None) -> None:
    """Let jobs finish sooner on a GPU cluster that runs stock Slurm."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a C locale cannot print every character
    log_to_stderr(log_level or "warning", os.environ)
    if context.obj is None:
        context.obj = App(config)
    context.obj.log_level = log_level
    context.call_on_close(context.obj.close)
