"""``slurmsched run``."""

from __future__ import annotations

import resource

import click

from ..app import App
from ..failure import Failed, open_files_limit
from ..logs import log_to_stderr

OPEN_FILES = 256
"""Sockets of all who may ask and deliver at once, pipes of Slurm's commands, the database."""


@click.command()
@click.pass_obj
def run(app: App) -> None:
    """Steer the cluster until stopped: the daemon.

    SIGTERM stops it after the cycle under way and gives every job back to Slurm; SIGHUP reads the settings again.
    """
    log_to_stderr(app.log_level or app.settings().daemon.log_level, app.environ)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < OPEN_FILES:
        raise Failed(f"the daemon needs {OPEN_FILES} open files; {open_files_limit()}")
    from .build import PATIENCE_S, build

    daemon = build(app, patience_s=PATIENCE_S)
    try:
        daemon.service.run()
    finally:
        daemon.close()
