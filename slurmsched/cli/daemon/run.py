"""``slurmsched run``."""

from __future__ import annotations

import resource

import click

from ..app import App
from ..failure import Failed, open_files_limit
from ..logs import log_to_stderr

OPEN_FILES = 256
"""The sockets of all simultaneous clients and deliveries, pipes of Slurm's commands, the database."""


@click.command()
@click.pass_obj
def run(app: App) -> None:
    """Run the daemon, which schedules the cluster until stopped.

    SIGTERM stops it after the cycle under way and returns every job to Slurm; SIGHUP reloads the settings.
    """
    settings = app.settings().daemon
    log_to_stderr(app.log_level or settings.log_level, app.environ, settings.log_format)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < OPEN_FILES:
        raise Failed(f"the daemon needs {OPEN_FILES} open files; {open_files_limit()}")
    from .build import PATIENCE_S, build

    daemon = build(app, patience_s=PATIENCE_S)
    try:
        daemon.service.run()
    finally:
        daemon.close()
