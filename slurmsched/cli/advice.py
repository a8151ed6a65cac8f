"""``slurmsched advice``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from .answers import tell
from .app import App
from .output import Sheet, table_options
from .spans import span

COLUMNS = ("WHO GAINS", "NAME", "JOBS", "SOONER", "LATER", "CHANGE")


@click.command()
@table_options
@click.pass_obj
def advice(app: App, as_json: bool) -> None:
    """Say which accounts and QOS our order helps and harms.

    CHANGE is how much sooner (negative) or later the work ahead of a job is done in our order than in Slurm's own, on
    average, by the forecasts.
    """
    reply = app.answers().ask("advice")
    tell(reply, sheet(reply["advice"]), now_s=app.clock.now(), as_json=as_json)


def sheet(shares: Iterable[Mapping[str, Any]]) -> Sheet:
    """Shares as rows, those that gain most first."""
    rows = [(s["kind"], s["name"], s["jobs"], s["sooner"], s["later"], span(s["change_s"])) for s in shares]
    return Sheet(COLUMNS, rows)
