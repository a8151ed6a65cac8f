"""``slurmsched story``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import click

from .app import App
from .failure import NotFound
from .jobs import JobName, job_argument
from .output import emit, json_option
from .spans import moment


@click.command()
@job_argument
@json_option
@click.pass_obj
def story(app: App, job: JobName, as_json: bool) -> None:
    """Tell the whole history of JOB."""
    reply = app.answers().ask("story", job_id=job.job_id)
    events = reply["story"]
    if not events:
        raise NotFound(
            f"the records have no job {job}: there never was one, slurmsched did not run then, or it ended more than"
            " database.keep_outcomes_days ago"
        )
    emit(reply, *(f"{moment(event['at_s'])}  {_sentence(event)}" for event in events), as_json=as_json)


def _sentence(event: Mapping[str, Any]) -> str:
    details = defaultdict[str, Any](lambda: "?", event["details"])
    run = f", run {details['restart'] + 1}" if details.get("restart") else ""
    if event["kind"] == "policy":
        details["line"] = details["line"] or "what the settings say"
        details["why"] = f": {details['reason']}" if details.get("reason") else ""
    cycle = f" (cycle {details['cycle']})" if "cycle" in details else ""
    sentence = _SENTENCES.get(event["kind"], str(event["kind"])).format_map(details | {"run": run})
    return sentence + cycle


_SENTENCES = {
    "submitted": "it was submitted",
    "standing": "we see it as {standing}, before as {before}",
    "deadline": "its deadline: {what} {reason}",
    "policy": "{by} set the policy to {line}{why}",
    "ranked": "we gave it {value} points",
    "held": "we delayed it",
    "released": "we ended our delay",
    "moved": "we moved it to partition {value}",
    "placed": "we gave it the node list {value}",
    "shared": "we began to change its GPUs into GPUs that it shares",
    "let start": "we let it start in partition {value}",
    "unmarked": "we left its GPUs as they are, and gave its comment back to it",
    "unshared": "we gave its own GPUs back to it",
    "failed together": "it and its partners ({partners}) failed together on their GPUs: {fault}",
    "unstable together": "its load and that of its partners ({partners}) on the same GPUs is unstable: {why}",
    "told": "we wrote {value} into its AdminComment",
    "asked to stop": "we asked it to save its work and stop (signal {value})",
    "requeue asked": "we asked Slurm to requeue it",
    "suspended": "we suspended it",
    "resumed": "we resumed it",
    "refused": "Slurm refused our {action}: {answer}",
    "requeued": "it was queued again{run}",
    "started": "it started{run}",
    "ended": "it ended: {state}{run}",
}
