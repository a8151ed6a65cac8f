"""``slurmsched why``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ..app import App
from ..failure import NotFound
from ..output import json_option
from ..query import print_reply
from .arguments import JobName, JobType

LINES = (("reason", "Reason"), ("time", "Time"), ("advice", "You can"))


@click.command()
@click.argument("job", type=JobType(), metavar="[JOB]", required=False)
@click.option("--details", is_flag=True, help="Also what our order and the powers make of it.")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="Most of your jobs to explain."
)
@json_option
@click.pass_obj
def why(app: App, job: JobName | None, details: bool, limit: int, as_json: bool) -> None:
    """Explain why JOB is not running yet: the reason, the time, and what you can do.

    Without JOB all your pending jobs are explained. The order of jobs is the one in force, Slurm's or ours.
    """
    if job is None:
        reply = app.answers().query("mine", limit=limit)
        parts = [line for one in reply["mine"] for line in (f"Job {one['job_id']}:", *_lines(one, details))]
        if not parts:
            parts.append(f"no job of {reply['user']} waits")
        if reply["pending"] > len(reply["mine"]):
            parts.append(f"... and {reply['pending'] - len(reply['mine'])} more; see --limit")
    else:
        reply = app.answers().query("why", job_id=job.job_id)
        if not reply["why"]["known"]:
            raise NotFound(f"{reply['why']['reason']} {reply['why']['advice']}")
        parts = list(_lines(reply["why"], details))
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)


def _lines(one: Mapping[str, Any], details: bool) -> Iterator[str]:
    for name, title in LINES:
        yield f"{title}: {one[name]}"
    if details:
        yield from one["details"]
