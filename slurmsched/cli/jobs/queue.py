"""``slurmsched queue``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ...cluster.text.plural import count
from ..app import App
from ..output import Cell, TextTable, table_options
from ..query import print_reply
from ..time_format import span

COLUMNS = ("RANK", "JOB", "TASKS", "USER", "NAME", "PARTITION", "GPUS", "FORECAST", "WAITED", "POINTS", "STANDING")
ORDER = ("JOB", "RANK", "STANDING", "USER", "GPUS", "FORECAST", "WAITED", "PARTITION", "NAME", "POINTS")
SLURMS = ("limit_blocked", "cannot_run", "partition_closed", "waits_for_dependency", "held_by_admin")
"""Standings that Slurm's own reason makes precise."""
CUT = ("USER", "PARTITION", "NAME")
NAMED = 5  #: jobs that a sentence names


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most jobs to list.")
@click.option("--user", metavar="NAME", help="Only jobs of this user.")
@click.option("--partition", metavar="NAME", help="Only jobs that ask for this partition.")
@click.option("--account", metavar="NAME", help="Only jobs of this account.")
@table_options
@click.pass_obj
def queue(app: App, limit: int, user: str | None, partition: str | None, account: str | None, as_json: bool) -> None:
    """List pending jobs in our order.

    Jobs that we leave alone follow, by Slurm's priority; their standing and Slurm's reason say why, as ``slurmsched
    why`` does at length. POINTS are our points that
    Slurm holds now.
    """
    filters = {"only_user": user, "only_partition": partition, "only_account": account}
    reply = app.answers().query("queue", limit=limit, **{name: text for name, text in filters.items() if text})
    rows = reply["queue"]
    parts: list[str | TextTable] = [*_doubts(rows), TextTable(COLUMNS, [_cells(row) for row in rows], ORDER, CUT)]
    if reply["order_off"]:
        parts.append(f"This order is not in force ({reply['order_off']}): Slurm starts jobs by its own priority.")
    if reply["pending"] > len(rows):
        parts.append(f"... and {reply['pending'] - len(rows)} more; see --limit")
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)


def _doubts(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield, for each thing that predicted times do not count, the jobs that it may hold back."""
    jobs: dict[str, list[str]] = {}
    for row in rows:
        for doubt in row["doubts"]:
            jobs.setdefault(doubt, []).append(str(row["job_id"]))
    for doubt, ids in jobs.items():
        more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
        yield f"Not counted in the predicted time of {', '.join(ids[:NAMED])}{more}: {doubt}."


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        row["rank"],
        row["job_id"],
        row["tasks"],
        row["user"],
        row["name"],
        row["partition"],
        count(row["gpus"], "slice") if row["slices"] else row["gpus"],
        span(row["forecast_s"]),
        span(row["waited_s"]),
        row["points"],
        _standing(row),
    ]


def _standing(row: Mapping[str, Any]) -> str:
    if row["runs"]:
        return "starts next"
    words = row["standing"].replace("_", " ")
    return f"{words} ({row['reason']})" if row["standing"] in SLURMS and row["reason"] else str(words)
