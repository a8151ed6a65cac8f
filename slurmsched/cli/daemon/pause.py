"""``slurmsched pause`` and ``slurmsched resume``."""

from __future__ import annotations

import getpass
import re

import click

from ...clock import local_zone
from ..app import App
from ..time_format import moment

_LIKELY = re.compile("[-0-9:TZ+dhms]+")
ACCEPTED = "+30m, +2h, +1d, 2026-08-01T10:00 (local time) or with an offset: 2026-08-01T10:00Z, ...+02:00"


@click.command()
@click.option("--until", metavar="TIME", help=f"End the pause by itself then: {ACCEPTED}.")
@click.pass_obj
def pause(app: App, until: str | None) -> None:
    """Make the daemon observe only.

    From its next cycle on it observes and records but writes nothing to Slurm; existing SiteFactors stay.
    """
    now_s = app.clock.now()
    until_s = None if until is None else time_from(until, now_s)
    if until_s is not None and until_s <= now_s:
        raise click.BadParameter(f"{until} is over: {moment(until_s)}", param_hint="--until")
    app.writable_store().pause(app.cluster_name(), by=getpass.getuser(), now_s=now_s, until_s=until_s)
    click.echo("paused until resumed" if until_s is None else f"paused until {moment(until_s, now_s)}")


@click.command()
@click.pass_obj
def resume(app: App) -> None:
    """End a pause."""
    app.writable_store().resume(app.cluster_name(), by=getpass.getuser(), now_s=app.clock.now())
    click.echo("resumed: the next cycle acts as the settings say")


def time_from(text: str, now_s: float) -> float:
    """Parse *text* into Unix seconds, in the grammar of deadlines; a usage error where it is not one moment."""
    from ...cluster.text.comment import PREFIX, parse
    from ...errors import CommentError

    try:
        if not _LIKELY.fullmatch(text):
            raise CommentError("it has characters that no time has")
        deadline = parse(f"{PREFIX}deadline={text}").deadline
        assert deadline is not None, text
        return deadline.resolve(now_s, local_zone())
    except CommentError as error:
        about = str(error) if "daylight" in str(error) else f"{text!r} is no time; accepted: {ACCEPTED}"
        raise click.BadParameter(about, param_hint="--until") from error
