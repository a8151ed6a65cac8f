"""``slurmsched deadline``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import click

from ..app import App
from ..failure import NotFound
from ..output import Cell, TextTable, table_options
from ..query import print_reply
from ..time_format import moment, span
from .arguments import JobName, JobType, job_options, not_understood_line, options_of

CLAIMS = ("WHO", "ASKED", "PROMISED", "REFUSED", "BROKEN", "WITHDRAWN", "LOST", "GPU-HOURS", "GPUS LATELY")
COLUMNS = ("JOB", "USER", "ANSWER", "DEADLINE", "PROMISED", "START BY", "SLACK", "EARLIEST")
ORDER = ("JOB", "ANSWER", "DEADLINE", "PROMISED", "USER", "SLACK", "START BY")
CUT = ("USER",)


@click.command()
@click.argument("job", type=JobType(), metavar="[JOB]", required=False)
@job_options
@click.option(
    "--chart",
    "charted",
    is_flag=True,
    help="Draw the plan: the jobs on the GPUs that JOB needs, and changes that would help.",
)
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write the plan of JOB as a page to this file.")
@click.option("--users", "who", is_flag=True, help="List requests and their outcomes by user.")
@table_options
@click.pass_obj
def deadline(
    app: App,
    job: JobName | None,
    options: str | None,
    script: BinaryIO | None,
    charted: bool,
    page: Path | None,
    who: bool,
    as_json: bool,
) -> None:
    """Show the promise for JOB, or the one for a new job.

    Without JOB the answers to all jobs with deadlines are listed. With --check or --script the exit status is 1 where
    no promise would be made; the check itself promises nothing:

        slurmsched deadline --check "-p gpu -G 4 -t 2:00:00 --comment=slurmsched:deadline=+6h"
    """
    now_s = app.clock.now()
    options = options_of(options, script)
    if who:
        if job is not None or options is not None or charted or page is not None:
            raise click.UsageError("--users goes with nothing else.")
        reply = app.answers().query("claims")
        print_reply(reply, TextTable(CLAIMS, [_claim(row) for row in reply["claims"]]), now_s=now_s, as_json=as_json)
        return
    if job is not None and options is not None:
        raise click.UsageError("Say JOB or a job to ask about (--check, --script), one of them.")
    if charted or page is not None:
        if job is None:
            raise click.UsageError("--chart and --html go with a JOB.")
        _chart(app, job, page, now_s, as_json)
        return
    if options is not None:
        reply = app.answers().query("check", options=options)
        answer = reply["check"]
    elif job is not None:
        reply = app.answers().query("deadline", job_id=job.job_id)
        answer = reply["deadline"]
        if not answer["known"]:
            raise NotFound(" ".join(answer["sentences"]))
    else:
        reply = app.answers().query("deadlines")
        rows = [_cells(row, now_s) for row in reply["deadlines"]]
        print_reply(reply, TextTable(COLUMNS, rows, ORDER, CUT), now_s=now_s, as_json=as_json)
        return
    parts = [*not_understood_line(answer["not_understood"]), *answer["sentences"], *_figures(answer, now_s)]
    if reply["mode"] != "act":
        parts.append(f"slurmsched only observes (mode {reply['mode']}): it makes no new promises.")
    print_reply(reply, *parts, now_s=now_s, as_json=as_json)
    sys.exit(1 if options is not None and answer["answer"] != "promised" else 0)


def _chart(app: App, job: JobName, page: Path | None, now_s: float, as_json: bool) -> None:
    from .render_lease_chart import html_chart, text_chart

    reply, answer = (app.answers().query(about, job_id=job.job_id) for about in ("chart", "deadline"))
    chart = reply["chart"]
    if not chart["known"]:
        raise NotFound(" ".join(chart["sentences"]))
    sentences = [*answer["deadline"]["sentences"], *chart["sentences"]]
    if page is not None:
        page.write_text(html_chart(chart, sentences, now_s), encoding="utf-8")
        sentences.append(f"The plan is in {page}.")
    parts = [*sentences, *text_chart(chart, now_s), *chart["changes"]]
    print_reply(reply, *parts, now_s=now_s, as_json=as_json)


def _figures(answer: Mapping[str, Any], now_s: float) -> list[str]:
    named = {"deadline": "deadline_s", "promised": "promised_s", "start by": "start_by_s", "earliest": "earliest_s"}
    figures = [f"{name} {moment(answer[key], now_s)}" for name, key in named.items() if answer[key] is not None]
    return ["; ".join(figures)] if figures else []


def _claim(row: Mapping[str, Any]) -> list[Cell]:
    counts = [row[name] for name in ("asked", "promised", "refused", "broken", "withdrawn", "lost")]
    pairs = ((row["gpu_hours"], row["most_gpu_hours"]), (row["gpus"], row["most_gpus"]))
    quotas = [f"{held:.4g}" + ("" if most is None or row["exempt"] else f" of {most:.4g}") for held, most in pairs]
    return [("account " if row["account"] else "") + row["who"], *counts, *quotas]


def _cells(row: Mapping[str, Any], now_s: float) -> list[Cell]:
    times = (moment(row[name], now_s) for name in ("deadline_s", "promised_s", "start_by_s"))
    return [row["job_id"], row["user"], row["answer"], *times, span(row["slack_s"]), moment(row["earliest_s"], now_s)]
