"""``slurmsched accuracy``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ...cluster.text.plural import count
from ..app import App
from ..failure import NotFound
from ..output import Cell, TextTable, emit, table_options
from ..sheet_text import text_of
from ..time_format import span

COLUMNS = (
    *("PARTITION", "SIZE", "STARTS", "STARTS OFF", "STARTS ON TIME", "START WIDTH"),
    *("FINISHES", "FINISHES OFF", "ERROR", "ON TIME", "FINISH WIDTH"),
    *("SLURM SAID", "SLURM OFF", "OURS THERE"),
)
ORDER = ("PARTITION", "SIZE", "FINISHES", "ON TIME", "ERROR", "FINISHES OFF", "STARTS", "STARTS ON TIME", "STARTS OFF")
CUT = ("PARTITION",)


@click.command()
@click.option(
    "--days", type=click.Choice(["1", "7", "30"]), default="30", show_default=True, help="How far back to look."
)
@table_options
@click.pass_obj
def accuracy(app: App, days: str, as_json: bool) -> None:
    """Compare predicted starts and finishes with the actual ones.

    The first prediction of each job counts, over all, by partition and by GPUs. OFF is the median difference, ERROR the
    mean difference of finishes over the predicted time; ON TIME is the share of jobs that met the time predicted for
    nine in ten, and WIDTH the median length of the interval. SLURM SAID counts starts that Slurm's own estimate (squeue
    --start) predicted too, SLURM OFF is its difference, and OURS THERE the difference of our prediction for those jobs.

    The tables below say how honest the times are: the shares that came by the times meant for 10, 50 and 90 %, also of
    jobs with and without deadlines, and of those that we held; the share that came by each tenth; and real waits beside
    predicted ones, ours and Slurm's, in ten groups of jobs.
    """
    facts = app.answers().query("accuracy", days=float(days))
    if not facts["rows"]:
        raise NotFound(f"no predicted start or finish happened in the last {_days(days)}")
    head = f"what came in the last {_days(days)} of what was predicted; of ten nine are to be on time"
    table = TextTable(COLUMNS, [_cells(row) for row in facts["rows"]], ORDER, CUT)
    emit(facts, head, table, *([] if as_json else _honesty(facts)), as_json=as_json)


def _honesty(facts: Mapping[str, Any]) -> Iterator[str | TextTable]:
    from ...report.sheets import accuracy_sheets

    for sheet in accuracy_sheets(facts):
        yield from ("", text_of(sheet))


def _days(days: str) -> str:
    return "day" if days == "1" else count(int(days), "day")


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    starts, finishes = row["starts"], row["finishes"]
    return [
        row["partition"] or "(all)",
        row["size"] or "(all)",
        *(starts["jobs"], span(starts["error_s"]), _share(starts, "by"), span(starts["width_s"])),
        *(finishes["jobs"], span(finishes["error_s"]), _share(finishes, "relative")),
        *(_share(finishes, "by"), span(finishes["width_s"])),
        *(row["slurm_jobs"], span(row["slurm_error_s"]), span(row["ours_there_s"])),
    ]


def _share(side: Mapping[str, Any], name: str) -> str | None:
    return f"{side[name]:.0%}" if side["jobs"] else None
