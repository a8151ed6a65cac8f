"""``slurmsched explain``."""

from __future__ import annotations

import click

from ..app import App
from ..failure import NotFound
from ..output import json_option
from ..query import print_reply
from .arguments import JobName, job_argument


@click.command()
@job_argument
@json_option
@click.pass_obj
def explain(app: App, job: JobName, as_json: bool) -> None:
    """Explain the forecast, rank and points of JOB, term by term."""
    reply = app.answers().query("explain", job_id=job.job_id)
    if not reply["explain"]["known"]:
        raise NotFound(f"{reply['explain']['reason']} {reply['explain']['advice']}")
    print_reply(reply, *reply["explain"]["sentences"], now_s=app.clock.now(), as_json=as_json)
