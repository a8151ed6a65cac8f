"""``slurmsched eta``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import Any, BinaryIO

import click

from ..app import App
from ..failure import NotFound
from ..output import Cell, TextTable, table_options
from ..query import QueryClient, print_reply
from ..time_format import moment, span
from .arguments import JobName, JobType, job_options, not_understood_line, options_of
from .compare import VARIANTS_MOST, compare

COLUMNS = ("JOB", "PARTITION", "GPUS", "IS", "START", "START BY", "FINISH", "DONE BY", "AHEAD", "NOTE")
ORDER = ("JOB", "DONE BY", "START", "FINISH", "IS", "START BY", "GPUS", "AHEAD", "PARTITION")
CUT = ("PARTITION", "NOTE")
WATCH_S = 10.0
SKEW_S = 5.0
TRIES = 3  #: attempts to get a long list as of one cycle


@click.command()
@click.argument("jobs", type=JobType(), metavar="[JOB]...", nargs=-1)
@job_options
@click.option(
    "--compare",
    "variants",
    metavar="OPTIONS",
    multiple=True,
    help=f"Options of a variant of the job, beside those of --check and --script; up to {VARIANTS_MOST} times.",
)
@click.option("--suggest", is_flag=True, help="Say what limit, CPUs and memory cover 95 % of such runs.")
@click.option("--all", "everybody", is_flag=True, help="Jobs of all users, where they are not private.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most jobs to list.")
@click.option("--watch", is_flag=True, help=f"Ask again every {WATCH_S:g} s until interrupted.")
@table_options
@click.pass_obj
def eta(
    app: App,
    jobs: Sequence[JobName],
    options: str | None,
    script: BinaryIO | None,
    variants: Sequence[str],
    suggest: bool,
    everybody: bool,
    limit: int,
    watch: bool,
    as_json: bool,
) -> None:
    """Predict when jobs will start and finish, with intervals.

    Without JOB all your jobs are listed. START and FINISH are as likely too early as too late; nine of ten jobs start
    and finish by the times after them. With --check or --script a job is evaluated without being submitted; options
    that the answer leaves out are named in its first line:

    \b
        slurmsched eta --check "-p gpu -G 4 -t 2:00:00"
        slurmsched eta --script train.sh --check "-t 30"

    --compare evaluates variants of a job one after the other, each shown as soon as it is known; --suggest adds the one
    with the limit, the CPUs and the memory that cover 95 % of runs like it, with what it gains and risks:

    \b
        slurmsched eta --script train.sh --compare "-G 4" --compare "-G 8 -t 4:00:00" --compare "-p long"
        slurmsched eta --script train.sh --suggest
    """
    if variants or suggest:
        if jobs or everybody or watch:
            raise click.UsageError("--compare and --suggest are about a new job; only --check and --script go there.")
        compare(app, options, script, variants, suggest=suggest, as_json=as_json)
        return
    if bool(jobs) + (options is not None or script is not None) + everybody > 1:
        raise click.UsageError("Give exactly one of JOB..., --check/--script, --all.")
    options = options_of(options, script)
    missing = _one_page(app, jobs, options, everybody, limit, as_json)
    while watch and not missing:
        app.clock.wait(WATCH_S, Event())
        click.echo()
        missing = _one_page(app, jobs, options, everybody, limit, as_json)
    if missing:
        raise NotFound(missing)


def _one_page(
    app: App, jobs: Sequence[JobName], options: str | None, everybody: bool, limit: int, as_json: bool
) -> str:
    """Print one answer; return the queried job ids that do not exist."""
    answers = app.answers()
    if options is not None:
        reply = answers.query("eta_check", options=options)
    elif jobs:
        reply = answers.query("eta", job_ids=[job.job_id for job in jobs])
    else:
        reply = _list(answers, everybody, limit)
    now_s = app.clock.now()
    predictions = reply["eta"]
    single = options is not None or len(jobs) == 1
    parts = list(_alone(predictions[0], now_s)) if single and predictions else _together(predictions, reply, now_s)
    print_reply(reply, *parts, reply["coverage_words"], *_clocks(reply, now_s), now_s=now_s, as_json=as_json)
    return " ".join(one["notes"][0] for one in predictions if one["kind"] == "unknown")


def _list(answers: QueryClient, everybody: bool, limit: int) -> dict[str, Any]:
    """Return the requested number of jobs, over as many queries as that takes.

    All are as of one cycle, unless even the last of ``TRIES`` attempts took longer than a cycle.
    """
    first: dict[str, Any] = {}
    predictions: list[Mapping[str, Any]] = []
    tries = 1
    while True:
        page = answers.query("eta", all=everybody, limit=limit - len(predictions), skip=len(predictions))
        if first and page["cycle"] != first["cycle"] and tries < TRIES:
            first, predictions, tries = {}, [], tries + 1
            continue
        first = first or page
        predictions += page["eta"]
        if not page["eta"] or len(predictions) >= min(limit, page["jobs"]):
            return first | {"limit": limit, "eta": predictions}


def _alone(one: Mapping[str, Any], now_s: float) -> Iterator[str]:
    """Describe one job in sentences."""
    if one["kind"] == "unknown":
        return
    yield from not_understood_line(one["not_understood"])
    who = f"Job {one['job_id']}" if one["job_id"] else "Such a job"
    if one["finish_s"] is not None:
        yield f"{who} {_start(one, now_s)}{_finish(one, now_s)}."
        yield f"Why: {one['derivation']}."
    else:
        yield f"{who}: its start and finish cannot be predicted."
    yield from one["notes"]
    if one["slurm_start_s"] is not None and one["kind"] != "running":
        yield f"Slurm itself says it starts at {moment(one['slurm_start_s'], now_s)}."


def _start(one: Mapping[str, Any], now_s: float) -> str:
    if one["kind"] == "running":
        return f"runs since {moment(one['start_s'], now_s)} and"
    about = "now" if one["start_s"] <= now_s else f"about {moment(one['start_s'], now_s)}"
    by = f" (by {moment(one['start_by_s'], now_s)} nine times in ten)" if one["start_by_s"] else ""
    return f"should start {about}{by} and"


def _finish(one: Mapping[str, Any], now_s: float) -> str:
    by = f", by {moment(one['finish_by_s'], now_s)} nine times in ten" if one["finish_by_s"] else ""
    soonest = f"; one in ten is done before {moment(one['finish_from_s'], now_s)}" if one["finish_from_s"] else ""
    return f" should be done about {moment(max(one['finish_s'], now_s), now_s)}{by}{soonest}"


def _together(
    predictions: Sequence[Mapping[str, Any]], reply: Mapping[str, Any], now_s: float
) -> Iterator[str | TextTable]:
    predicted = [one for one in predictions if one["kind"] != "unknown"]
    if not predicted:
        yield "no job of yours waits or runs" if not predictions else ""
        return
    shared = _shared_notes(predicted)
    yield TextTable(COLUMNS, [_cells(one, shared, now_s) for one in predicted], ORDER, CUT)
    yield from shared
    if reply["jobs"] > len(predictions):
        yield f"... and {reply['jobs'] - len(predictions)} more; see --limit"


def _shared_notes(predicted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is noted of each of several jobs whose start is predicted: said once, below the table."""
    notes = [one["notes"] for one in predicted if one["kind"] != "running" and one["finish_s"] is not None]
    return [note for note in notes[0] if all(note in others for others in notes)] if len(notes) > 1 else []


def _cells(one: Mapping[str, Any], shared: Sequence[str], now_s: float) -> list[Cell]:
    times = (moment(one[name], now_s) for name in ("start_s", "start_by_s", "finish_s", "finish_by_s"))
    is_ = "running" if one["kind"] == "running" else one["kind"].replace("_", " ")
    own = [note for note in one["notes"] if note not in shared]
    note = " ".join([*not_understood_line(one["not_understood"]), *own])
    return [one["job_id"], one["partition"], one["gpus"], is_, *times, one["ahead"], note]


def _clocks(reply: Mapping[str, Any], now_s: float) -> Iterator[str]:
    """Explain a difference between the daemon's clock and this one."""
    ahead_s = reply["as_of_s"] - now_s
    if ahead_s > SKEW_S:
        yield f"The daemon's clock is {span(ahead_s)} ahead of this machine's: read the times by its clock."
