"""``slurmsched models queue-time``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.output import Cell, TextTable, emit, table_options
from ...cli.time_format import span
from .answers import QueueTimesShown

if TYPE_CHECKING:
    from ..queue_time.scores import QueueTimes, WaitScores

PATH = click.Path(exists=True, path_type=Path)
HEADING = (
    *("PREDICTOR", "ANSWERED", "OFF", "WITHIN 2X", "WITHIN 3X", "PINBALL S"),
    *("PINBALL LOG", "COVERED", "BY HIGH END", "WIDTH"),
)


@click.command("queue-time")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@click.option(
    "--format", "kind", metavar="NAME", help="waits, philly, helios, mila, sacct or swf.  [default: by the first lines]"
)
@click.option(
    "--shared/--apart",
    default=None,
    help="Whether the partitions use the same nodes.  [default: shared for mila, sacct and swf, apart for the others]",
)
@click.option(
    "--questions",
    type=click.IntRange(20),
    default=4000,
    help="Most jobs that are asked for, evenly over the log.  [default: 4000]",
)
@table_options
def queue_time(paths: tuple[Path, ...], kind: str | None, shared: bool | None, questions: int, as_json: bool) -> None:
    """Compare predictions of queue times on logs with real waits: baselines, and what eta would have said.

    PATH is a file, or a directory of files of one format. Each predictor learns from the first 60 % of the jobs that
    are asked for, and is scored on the others.
    """
    from ...cli.progress import bar
    from ..queue_time.benchmark import benchmark
    from ..queue_time.readers import read_waits

    results = []
    for path in paths:
        data = read_waits(path, kind, shared=shared)
        with bar(f"asking for waits of {path.name}") as report:
            results.append(benchmark(str(path), data, questions, report))
    facts: QueueTimesShown = {"results": results}
    parts = [part for one in results for part in _shown(one)]
    emit(facts, *parts, as_json=as_json)


def _shown(result: QueueTimes) -> list[str | TextTable]:
    scored = result.scores[0].asked
    first = (
        f"{result.data}: {result.jobs:,} jobs of the format {result.format}; {scored:,} scored after {result.learnt:,}"
        f" to learn from; median wait {span(result.median_wait_s)}"
    )
    notes = [f"  {note}" for note in result.notes]
    return ["\n".join([first, *notes]), TextTable(HEADING, [_row(one) for one in result.scores])]


def _row(one: WaitScores) -> list[Cell]:
    return [
        one.predictor,
        f"{one.answered / one.asked:.0%}",
        span(one.error_s),
        f"{one.within_2x:.1%}",
        f"{one.within_3x:.1%}",
        _figure(one.pinball_s, "{:.0f}"),
        _figure(one.pinball_log, "{:.3f}"),
        _figure(one.covered, "{:.1%}"),
        _figure(one.by_high, "{:.1%}"),
        span(one.width_s),
    ]


def _figure(value: float, form: str) -> str:
    return "-" if value != value else form.format(value)
