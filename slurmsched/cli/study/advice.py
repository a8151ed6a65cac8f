"""``slurmsched advice``."""

from __future__ import annotations

import click

from ..app import App
from ..jobs.advice import SHEETS, idle_parts, sheet
from ..output import TextTable, table_options
from ..query import print_reply
from .gain_in_force import gain_in_force, headline
from .option_types import SpanType


@click.command()
@click.option(
    "--from-db", "from_db_s", type=SpanType(), metavar="SPAN", help="The history behind the gain.  [default: 500 jobs]"
)
@click.option("--gain/--no-gain", default=True, help="Replay the history for the gain, some 10 s.  [default: yes]")
@table_options
@click.pass_obj
def advice(app: App, from_db_s: float | None, gain: bool, as_json: bool) -> None:
    """Show the gain of the settings, and who gains or loses by our order.

    The first lines are what simulate --from-db says of the latest jobs, on all nodes of the cluster: the gain of the
    settings with its interval, and the ideal, which no site reaches. This needs the right to read the database, and
    replays the history at every call; --no-gain leaves it out.

    In the first table, CHANGE is the average time by which the work ahead of a job ends sooner (negative) or later in
    our order than in Slurm's own, by the forecasts.

    The second table, which needs a daemon, shows users whose runs went far beyond their forecasts in the last 30 days.
    RUNS counts those that lasted at least 16 times as long as forecast (8 times with a trained model), TIMES is the
    geometric mean of their ratios, TYPICALLY their typical runtime. RAISED is how far the runtimes that rank this
    user's jobs are raised towards it.

    The third one, which needs a daemon too, shows the bandwidth between the GPUs of runs that had several on a node in
    the last 30 days, where pairs of GPUs have NVLinks of their own. AT BEST is that of as many GPUs of an empty node,
    LOST the share of it that the runs did not have. Slurm chooses GPUs by Links= and Cores= of gres.conf, for which
    slurmsched node-check prints the lines.

    The fourth one, which needs a daemon, shows how fast kinds of jobs that report their iterations were on more nodes
    than they need: SPEED is a share of that on as few nodes. Slurm chooses the nodes; a job with --nodes=1 is not
    spread.

    The fifth one, which needs a daemon, shows how fast kinds of jobs were by type of GPU: SPEED is a share of that on
    their fastest type, SECONDS the typical runtime, or iteration. power.steer sends jobs by that.

    The last but one, which needs a daemon, shows the GPU-hours since its start that stood idle while jobs waited for
    GPUs, because the CPUs or the memory of their node were taken. The jobs of these accounts and users had more of them
    than the part of the node that belongs to their GPUs.

    The last table shows the GPU-hours since then for which jobs waited though as many GPUs as they ask for were free in
    all: they were spread over more nodes, blocks or switches than the jobs may have.

    Below them stand the GPUs that jobs hold and that no process has used for half an hour, and the jobs that would
    start sooner were they free now. Nothing is ever cancelled for it.
    """
    if from_db_s is not None and not gain:
        raise click.UsageError("--from-db is the history behind the gain: it does not go with --no-gain.")
    reply = app.answers().query("advice")
    parts: list[str | TextTable] = [sheet("advice", reply["advice"])]
    if gain:
        reply = {**reply, "gain": gain_in_force(app, from_db_s)}
        parts = [*headline(reply["gain"]), *parts]
    parts += [sheet(name, rows) for name in SHEETS if name != "advice" and (rows := reply.get(name))]
    if idle := reply.get("idle"):
        parts += idle_parts(idle, app.clock.now())
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)
