"""``slurmsched release-all``."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...cluster.text.plural import count
from ...errors import SlurmschedError
from ..app import App
from ..output import emit, json_option

if TYPE_CHECKING:
    from ...slurm.port import Slurm

logger = logging.getLogger(__name__)


@click.command("release-all")
@click.option(
    "--budget", type=click.FloatRange(1, 3600), default=60.0, show_default=True, help="Time limit in seconds."
)
@json_option
@click.pass_obj
def release_all(app: App, budget: float, as_json: bool) -> None:
    """Return every job to Slurm.

    Every SiteFactor becomes 0, every hold of ours ends, jobs that are moving to shared GPUs arrive there or return to
    whole ones, jobs that we suspended go on, answers leave AdminComments, and lent nodes return to their partitions.
    Needs no daemon. Without the database nodes stay where they are, jobs that we suspended stay suspended, and our
    holds cannot be told from users' begin times: they end by themselves within half an hour, and the held jobs then
    start. Stop or pause a running daemon first: it would order jobs again. Exit status 1 if anything is left.
    """
    from ...daemon.release import give_back
    from ...powers import share

    app.time_left.bound(budget)
    cluster = app.cluster(apart=lambda: {"excluded_nodes", "node_request", "node_range"})
    report = give_back(
        *(cluster, app.open_intents(), app.clock, budget, share.terms(app.settings())),
        keep=lambda news: app.store().save_intents(app.cluster_name(), news),
    )
    more = [f"Slurm refused: {words}" for words in report.refused]
    nodes = _give_nodes_back(app, cluster)
    more += [f"partitions keep nodes of each other: {nodes}"] if nodes else []
    if report.left:
        more.append(f"{count(report.left, 'write')} left to do when {budget:g} s were over; run it again")
    emit(asdict(report), report.sentence, *more, as_json=as_json)
    sys.exit(1 if report.left or report.refused or nodes else 0)


def _give_nodes_back(app: App, cluster: Slurm) -> str:
    from ...daemon.release import give_nodes_back

    try:
        return give_nodes_back(cluster, app.cluster_name(), app.store())
    except SlurmschedError as error:
        logger.warning("which nodes are lent is not known: %s", error)
        return ""
