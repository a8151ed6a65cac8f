"""``slurmsched history``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .app import App
from .bars import bar
from .failure import NotFound
from .output import Cell, Sheet, emit, json_option
from .spans import moment, span

if TYPE_CHECKING:
    from ..cluster.history import OutcomeTable

DAY_S = 86400.0
SPAN_MOST_S = 32 * DAY_S
FEW = 10_000  #: runs in a span after which the next may be twice as long; each span is stored before the next is read
OVERLAP_S = 2 * DAY_S  #: slurmdbd can learn of an end late; what is known already is not stored twice


@click.group()
def history() -> None:
    """Import or count what past jobs did."""


@history.command("import")
@click.option("--days", type=click.FloatRange(0.01, 3650), help="How far back; else from the last known end, or 90.")
@json_option
@click.pass_obj
def import_(app: App, days: float | None, as_json: bool) -> None:
    """Read finished runs from sacct into the database.

    Runs that are there already are left as they are, so that it may be run any time and again after a failure.
    """
    now_s = app.clock.now()
    cluster, store, name = app.cluster(), app.store(), app.cluster_name()
    since_s = now_s - (days or 90) * DAY_S
    if days is None and len(known := store.history(name, since_s=since_s)):
        since_s = float(known.ended_s[-1]) - OVERLAP_S
    read = new = 0
    with bar("days of accounting") as progress:
        at_s, span_s = since_s, DAY_S
        while at_s < now_s:
            end_s = min(at_s + span_s, now_s)
            outcomes = cluster.outcomes(at_s, end_s)
            read += len(outcomes)
            new += store.add_outcomes(name, outcomes)
            progress(round((end_s - since_s) / DAY_S), math.ceil((now_s - since_s) / DAY_S))
            at_s, span_s = end_s, min(2 * span_s, SPAN_MOST_S) if len(outcomes) < FEW else DAY_S
    sentence = f"{read} runs ended since {moment(since_s)}, {new} of them new here"
    emit({"cluster": name, "since_s": since_s, "read": read, "new": new}, sentence, as_json=as_json)


@history.command()
@click.option("--days", type=click.FloatRange(0.01, 3650), help="Only runs that ended this recently.")
@json_option
@click.pass_obj
def stats(app: App, days: float | None, as_json: bool) -> None:
    """Count the runs in the database, with waits and runtimes by GPUs."""
    since_s = None if days is None else app.clock.now() - days * DAY_S
    runs = app.store().history(app.cluster_name(), since_s=since_s)
    if not len(runs):
        raise NotFound("the database holds no runs of that time; try: slurmsched history import")
    rows = list(_by_gpus(runs))
    first_s, last_s = float(runs.ended_s[0]), float(runs.ended_s[-1])
    facts = {"runs": len(runs), "first_ended_s": first_s, "last_ended_s": last_s, "by_gpus": rows}
    said = f"{len(runs)} runs of {len(set(runs.user))} users, ended from {moment(first_s)} to {moment(last_s)}"
    spans = ("runtime_p50_s", "runtime_p90_s", "wait_p50_s", "wait_p90_s")
    cells: list[list[Cell]] = [
        [int(row["gpus"]), int(row["runs"]), *(span(row[name]) for name in spans)] for row in rows
    ]
    columns = ("GPUS", "RUNS", "RUNTIME P50", "P90", "WAIT P50", "P90")
    emit(facts, said, Sheet(columns, cells), as_json=as_json)


def _by_gpus(runs: OutcomeTable) -> Iterator[dict[str, float]]:
    import numpy as np

    started = runs.take(np.isfinite(runs.started_s))
    for gpus in np.unique(started.gpus):
        these = started.take(started.gpus == gpus)
        runtime, wait = np.percentile((these.runtime_s, these.started_s - these.eligible_s), (50, 90), axis=1).T
        yield {
            "gpus": int(gpus),
            "runs": len(these),
            "runtime_p50_s": float(runtime[0]),
            "runtime_p90_s": float(runtime[1]),
            "wait_p50_s": float(wait[0]),
            "wait_p90_s": float(wait[1]),
        }
