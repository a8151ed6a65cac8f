"""``slurmsched release-all``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..clock import Clock
from .app import App
from .output import emit, json_option

if TYPE_CHECKING:
    from ..db.intents import Intent
    from ..slurm.port import Slurm
    from ..slurm.release import ReleaseReport


@click.command("release-all")
@click.option(
    "--budget", type=click.FloatRange(1, 3600), default=60.0, show_default=True, help="Most seconds to take, about."
)
@json_option
@click.pass_obj
def release_all(app: App, budget: float, as_json: bool) -> None:
    """Give every job back to Slurm.

    Every SiteFactor becomes 0 and every hold of ours ends. Needs no daemon; without the database a hold of ours is not
    known from a user's begin time, and ends by itself within two cycles. Stop or pause a running daemon first: it would
    order again. Exit status 1 if anything is left.
    """
    report = give_back(app.cluster(), app.open_intents(), app.clock, budget)
    sentence = f"points taken from {report.ranked} jobs, holds of {report.held} jobs ended"
    more = [f"Slurm refused: {words}" for words in report.refused]
    if report.left:
        more.append(f"{report.left} writes were left when {budget:g} s were over; run it again")
    emit(asdict(report), sentence, *more, as_json=as_json)
    sys.exit(1 if report.left or report.refused else 0)


def give_back(cluster: Slurm, intents: Sequence[Intent], clock: Clock, budget_s: float) -> ReleaseReport:
    """Take our hands off every job, within about *budget_s* seconds."""
    from ..slurm.release import release_all as release

    until_s = clock.monotonic() + budget_s
    ranked = {intent.job_id for intent in intents if intent.kind == "Rank"}
    held = {intent.job_id for intent in intents if intent.kind == "Hold"}
    return release(cluster, ranked, held, now_s=clock.now(), within=lambda: clock.monotonic() < until_s)
