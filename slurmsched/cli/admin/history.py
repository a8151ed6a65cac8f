"""``slurmsched history``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cluster.text.gpu_types import GpuParts
from ...cluster.text.plural import count
from ..app import App
from ..failure import NotFound
from ..output import Cell, TextTable, emit, json_option, table_options
from ..progress import bar
from ..time_format import moment, span

if TYPE_CHECKING:
    from ...cluster.nodes import NodeTable
    from ...cluster.records.outcomes import RefusedRecord
    from ..json_answers import HistoryImport

DAY_S = 86400.0
SPAN_MOST_S = 32 * DAY_S
FEW = 10_000  #: runs below which the next span is twice as long; each span is stored before the next is read
OVERLAP_S = 2 * DAY_S  #: slurmdbd may learn of an end late; runs that are stored already are skipped


@click.group()
def history() -> None:
    """Import past jobs, or summarize them."""


@history.command("import")
@click.option("--days", type=click.FloatRange(0.01, 3650), help="How far back; else from the last known end, or 90.")
@click.option("--rejected", type=click.Path(path_type=Path), help="Write the records that are no runs to this file.")
@json_option
@click.pass_obj
def import_(app: App, days: float | None, rejected: Path | None, as_json: bool) -> None:
    """Read finished runs from sacct into the database.

    Runs that are already stored stay unchanged, so the import may be repeated at any time. Records that cannot be read
    are counted by reason.
    """
    from ...slurm.checkup import counts_gpus

    now_s = app.clock.now()
    cluster, store, name = app.cluster(), app.writable_store(), app.cluster_name()
    since_s = now_s - (days or 90) * DAY_S
    if days is None and len(stored := store.history(name, since_s=since_s)):
        since_s = float(stored.ended_s[-1]) - OVERLAP_S
    read = new = 0
    refused: list[RefusedRecord] = []
    with bar("days of accounting") as progress:
        at_s, span_s = since_s, DAY_S
        while at_s < now_s:
            end_s = min(at_s + span_s, now_s)
            outcomes = cluster.outcomes(at_s, end_s, refused)
            read += len(outcomes)
            new += store.add_outcomes(name, outcomes)
            progress(round((end_s - since_s) / DAY_S), math.ceil((now_s - since_s) / DAY_S))
            at_s, span_s = end_s, min(2 * span_s, SPAN_MOST_S) if len(outcomes) < FEW else DAY_S
    sentence = f"{count(read, 'run')} ended since {moment(since_s)}, {new:,} new here"
    reasons = dict(Counter(one.reason for one in refused).most_common())
    if rejected is not None:
        _write_rejected(rejected, refused)
    facts: HistoryImport = {"cluster": name, "since_s": since_s, "read": read, "new": new, "refused": reasons}
    lines = [f"{count(number, 'record')} left out: {reason}" for reason, number in reasons.items()]
    if refused and rejected is None:
        lines.append("'--rejected FILE' lists them")
    if read and counts_gpus(cluster.facts()) is False:
        lines.append(
            "all of them have 0 GPUs: AccountingStorageTRES in slurm.conf lacks gres/gpu; "
            "'slurmsched check' has the line to add"
        )
    elif read:
        parts = GpuParts.of_text(app.settings().slurm.gpu_parts)
        lines += _untracked_slices(cluster.observe().nodes, cluster.facts().config, parts)
    emit(facts, sentence, *lines, as_json=as_json)


def _untracked_slices(nodes: NodeTable, config: Mapping[str, str], parts: GpuParts) -> list[str]:
    """Return a line about types of slices that accounting does not tell from whole GPUs; none where it tells all."""
    from ...cluster.nodes import by_type

    types = {*nodes.gpu_type.names, *(kind for text in nodes.gpu_types.names for kind in by_type(text))}
    tracked = {name.lower() for name in config.get("AccountingStorageTRES", "").split(",")}
    missing = sorted(kind for kind in types if parts.is_slice(kind) and f"gres/gpu:{kind}".lower() not in tracked)
    if not missing:
        return []
    names = ",".join(f"gres/gpu:{kind}" for kind in missing)
    return [f"runs on slices have no type and count as whole GPUs: AccountingStorageTRES in slurm.conf lacks {names}"]


def _write_rejected(path: Path, refused: list[RefusedRecord]) -> None:
    """Write a line for each of the *refused* records: its reason and its fields."""
    lines = [f"{one.reason}\t{one.record.encode('unicode_escape').decode()}\n" for one in refused]
    path.write_text("".join(lines), encoding="utf-8")


def _size(row: Mapping[str, Any]) -> Cell:
    return count(int(row["gpus"]), "slice") if row["slices"] else int(row["gpus"])


@history.command()
@click.option("--days", type=click.FloatRange(0.01, 3650), help="Only runs that ended this recently.")
@table_options
@click.pass_obj
def stats(app: App, days: float | None, as_json: bool) -> None:
    """Count the runs in the database, with waits and runtimes by GPUs.

    Where jobs are private on the cluster, users see only their own runs.
    """
    facts = app.answers().query("history", **({} if days is None else {"days": days}))
    if not facts["runs"]:
        raise NotFound("the database holds no runs of that time; try: slurmsched history import")
    rows = facts["by_gpus"]
    ended = f"ended from {moment(facts['first_ended_s'])} to {moment(facts['last_ended_s'])}"
    sentence = f"{count(facts['runs'], 'run')} of {count(facts['users'], 'user')}, {ended}"
    spans = ("runtime_p50_s", "runtime_p90_s", "wait_p50_s", "wait_p90_s")
    cells: list[list[Cell]] = [[_size(row), int(row["runs"]), *(span(row[name]) for name in spans)] for row in rows]
    columns = ("GPUS", "RUNS", "RUNTIME P50", "RUNTIME P90", "WAIT P50", "WAIT P90")
    emit(facts, sentence, TextTable(columns, cells), as_json=as_json)
