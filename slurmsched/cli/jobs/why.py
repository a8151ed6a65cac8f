"""``slurmsched why``."""

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
def why(app: App, job: JobName, as_json: bool) -> None:
    """Explain why JOB is not running yet."""
    reply = app.answers().query("why", job_id=job.job_id)
    if not reply["why"]["known"]:
        raise NotFound(" ".join(reply["why"]["sentences"]))
    print_reply(reply, *reply["why"]["sentences"], now_s=app.clock.now(), as_json=as_json)
