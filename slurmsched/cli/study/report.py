"""``slurmsched report``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...errors import ConfigError
from ..app import App
from ..output import TextTable, emit, table_options
from ..sheet_text import text_of
from .option_types import SpanType

WEEK_S = 7 * 86_400.0


@click.command()
@click.option("--week", is_flag=True, help="The last seven days.  [default]")
@click.option("--since", "since_s", type=SpanType(), metavar="SPAN", help="The last 12h, 30d or 4w instead.")
@click.option("--user", metavar="NAME", help="Only jobs of this user.")
@click.option("--account", metavar="NAME", help="Only jobs of this account.")
@click.option("--partition", metavar="NAME", help="Only jobs that ran in this partition.")
@click.option("--job", "job_id", type=click.IntRange(1, 2**32 - 1), metavar="JOB", help="Only this job.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one figure a line, for spreadsheets.")
@click.option(
    "--html", "page_path", type=click.Path(dir_okay=False, writable=True), help="Write a page with charts to this file."
)
@click.option("--text", "as_text", is_flag=True, help="Print text.  [default]")
@table_options
@click.pass_obj
def report(
    app: App,
    week: bool,
    since_s: float | None,
    user: str | None,
    account: str | None,
    partition: str | None,
    job_id: int | None,
    as_csv: bool,
    page_path: str | None,
    as_text: bool,
    as_json: bool,
) -> None:
    """Report what jobs held, used and waited for, and what slurmsched changed.

    GPU-hours are those within the span, also of jobs that began before it or still run. Used hours are weighted by the
    utilisation that nodes measured; idle ones had no process on the GPU, or processes that used less than 5 % of it.
    Waits stand beside Slurm's own estimates, predicted times beside the real ones. The effect of the order comes with
    an interval for each account. What nobody measured is named at the end, with the setting that measures it.

    Users get a report on their own jobs, operators one on all. --html writes one file that loads nothing.
    """
    if week and since_s is not None:
        raise click.UsageError("--week and --since are two spans: give one of them.")
    if sum((as_csv, as_text, as_json, page_path is not None)) > 1:
        raise click.UsageError("--json, --csv, --html and --text are four forms: give one of them.")
    names = {"only_user": user, "only_account": account, "only_partition": partition}
    wanted: dict[str, str | float | int] = {name: text for name, text in names.items() if text}
    wanted |= {"job_id": job_id} if job_id else {}
    answer = app.answers().query("report", span_s=WEEK_S if since_s is None else since_s, **wanted)
    if page_path is not None:
        _write_page(answer, Path(page_path))
    elif as_csv:
        from ...report.csv_lines import csv_text

        click.echo(csv_text(answer), nl=False)
    else:
        emit(answer, *_parts(answer), as_json=as_json)


def _write_page(answer: Mapping[str, Any], path: Path) -> None:
    from ...report.page import page

    try:
        path.write_text(page(answer), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"writing {path}: {error.strerror}") from error
    click.echo(f"wrote {path}")


def _parts(answer: Mapping[str, Any]) -> list[str | TextTable]:
    from ...report.sheets import headline, missing, order_words, sheets

    parts: list[str | TextTable] = [headline(answer)]
    for sheet in sheets(answer):
        parts += ["", sheet.title, text_of(sheet)]
    parts += ["", *map(order_words, answer["order"])] if answer["order"] else []
    return [*parts, "", *missing(answer)] if answer["not_measured"] else parts
