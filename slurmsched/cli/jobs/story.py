"""``slurmsched story``."""

from __future__ import annotations

import click

from ..app import App
from ..failure import NotFound
from ..output import emit, json_option
from ..time_format import moment
from .arguments import JobName, job_argument


@click.command()
@job_argument
@json_option
@click.pass_obj
def story(app: App, job: JobName, as_json: bool) -> None:
    """Show the whole history of JOB."""
    from ...explain.story_words import sentence

    reply = app.answers().query("story", job_id=job.job_id)
    events = reply["story"]
    if not events:
        raise NotFound(
            f"the records have no job {job}: there never was one, slurmsched did not run then, or it ended more than"
            " database.keep_outcomes_days ago"
        )
    lines = [f"{moment(event['at_s'])}  {sentence(event)}" for event in events]
    emit(reply, *lines, *filter(None, [reply["passed"]]), as_json=as_json)
