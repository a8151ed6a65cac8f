"""``slurmsched accuracy``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .app import App
from .failure import NotFound
from .output import Cell, Sheet, emit, json_option
from .spans import span

if TYPE_CHECKING:
    from ..models.accuracy import Accuracy, Side

DAY_S = 86400.0
BEFORE_S = 30 * DAY_S  #: a job that ended lately may have been predicted so long before
COLUMNS = (
    *("PARTITION", "SIZE", "STARTS", "OFF BY", "ON TIME", "WIDTH"),
    *("FINISHES", "OFF BY", "ERROR", "ON TIME", "WIDTH"),
    *("SLURM SAID", "OFF BY", "OURS THERE"),
)


@click.command()
@click.option(
    "--days", type=click.Choice(["1", "7", "30"]), default="30", show_default=True, help="How far back to look."
)
@json_option
@click.pass_obj
def accuracy(app: App, days: str, as_json: bool) -> None:
    """Say how predicted starts and finishes came true.

    The first prediction of each job counts, over all, by partition and by GPUs. OFF BY is the median difference, ERROR
    the mean one over the predicted time; ON TIME is the share that came by the time said for nine in ten, and WIDTH the
    median length of the interval. SLURM SAID counts starts that Slurm's own estimate (squeue --start) foretold too.
    """
    from ..models import accuracy as measured

    now_s, span_s = app.clock.now(), float(days) * DAY_S
    kept = app.store().predictions(app.cluster_name(), now_s - span_s - BEFORE_S)
    rows = measured.accuracy(kept, now_s, (float(days),))
    if not rows:
        raise NotFound(f"no start or finish that was predicted came in the last {_days(days)}")
    facts = {"days": float(days), "rows": [asdict(row) for row in rows]}
    head = f"what came in the last {_days(days)} of what was predicted; of ten nine are to be on time"
    emit(facts, head, Sheet(COLUMNS, [_cells(row) for row in rows]), as_json=as_json)


def _days(days: str) -> str:
    return "day" if days == "1" else f"{days} days"


def _cells(row: Accuracy) -> list[Cell]:
    starts, finishes = row.starts, row.finishes
    return [
        row.partition or "(all)",
        row.size or "(all)",
        *(starts.jobs, span(starts.error_s), _share(starts, starts.by), span(starts.width_s)),
        *(finishes.jobs, span(finishes.error_s), _share(finishes, finishes.relative)),
        *(_share(finishes, finishes.by), span(finishes.width_s)),
        *(row.slurm_jobs, span(row.slurm_error_s), span(row.ours_there_s)),
    ]


def _share(side: Side, value: float) -> str | None:
    return f"{value:.0%}" if side.jobs else None
