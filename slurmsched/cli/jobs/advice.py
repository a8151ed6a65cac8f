"""``slurmsched advice``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ..app import App
from ..output import TextTable, table_options
from ..query import print_reply
from ..time_format import span

BEYOND = ("FAR BEYOND FORECAST", "RUNS", "TIMES", "TYPICALLY", "RAISED")
COLUMNS = ("WHO GAINS", "NAME", "JOBS", "SOONER", "LATER", "CHANGE")


@click.command()
@table_options
@click.pass_obj
def advice(app: App, as_json: bool) -> None:
    """Say which accounts and QOS our order helps and harms.

    CHANGE is how much sooner (negative) or later the work ahead of a job is done in our order than in Slurm's own, on
    average, by the forecasts.

    The second table, from the daemon alone, shows whose runs went far beyond their forecasts in the last 30 days: RUNS
    that lasted 16 times as long and more (8 times where a trained model forecasts), TIMES as long on average, TYPICALLY
    so long. RAISED is how far up this user's jobs are ranked towards that.
    """
    reply = app.answers().query("advice")
    parts = [sheet(reply["advice"])]
    if beyond := reply.get("overrunners"):
        parts.append(beyond_sheet(beyond))
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)


def sheet(shares: Iterable[Mapping[str, Any]]) -> TextTable:
    """Shares as rows, those that gain most first."""
    rows = [(s["kind"], s["name"], s["jobs"], s["sooner"], s["later"], span(s["change_s"])) for s in shares]
    return TextTable(COLUMNS, rows)


def beyond_sheet(users: Iterable[Mapping[str, Any]]) -> TextTable:
    """Users as rows, in the order given."""
    rows = [(u["user"], u["runs"], round(u["times"]), span(u["length_s"]), f"{u['raised']:.0%}") for u in users]
    return TextTable(BEYOND, rows)
