"""``slurmsched run``."""

from __future__ import annotations

import click

from .app import App
from .logs import log_to_stderr


@click.command()
@click.pass_obj
def run(app: App) -> None:
    """Steer the cluster until stopped: the daemon.

    SIGTERM stops it after the cycle under way and gives every job back to Slurm; SIGHUP reads the settings again.
    """
    log_to_stderr(app.log_level or app.settings().daemon.log_level, app.environ)
    from .assembly import PATIENCE_S, Daemon

    daemon = Daemon(app, patience_s=PATIENCE_S)
    try:
        daemon.service.run()
    finally:
        daemon.close()
