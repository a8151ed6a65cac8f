"""``slurmsched queue``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..app import App
from ..output import Cell, TextTable, table_options
from ..query import print_reply
from ..time_format import span

COLUMNS = ("RANK", "JOB", "TASKS", "USER", "NAME", "PARTITION", "GPUS", "FORECAST", "WAITED", "POINTS", "STANDING")
ORDER = ("JOB", "RANK", "STANDING", "USER", "GPUS", "FORECAST", "WAITED", "PARTITION", "NAME", "POINTS")
CUT = ("USER", "PARTITION", "NAME")


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most jobs to list.")
@table_options
@click.pass_obj
def queue(app: App, limit: int, as_json: bool) -> None:
    """List pending jobs in our order.

    Jobs that we leave alone follow, by Slurm's priority; their standing gives the reason. POINTS are our points that
    Slurm holds now.
    """
    reply = app.answers().query("queue", limit=limit)
    rows = reply["queue"]
    parts: list[str | TextTable] = [TextTable(COLUMNS, [_cells(row) for row in rows], ORDER, CUT)]
    if reply["order_off"]:
        parts.append(f"This order is not in force ({reply['order_off']}): Slurm starts jobs by its own priority.")
    if reply["pending"] > len(rows):
        parts.append(f"... and {reply['pending'] - len(rows)} more; see --limit")
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        row["rank"],
        row["job_id"],
        row["tasks"],
        row["user"],
        row["name"],
        row["partition"],
        row["gpus"],
        span(row["forecast_s"]),
        span(row["waited_s"]),
        row["points"],
        "starts next" if row["runs"] else row["standing"].replace("_", " "),
    ]
