"""``slurmsched advice``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ..app import App
from ..output import TextTable, table_options
from ..query import print_reply
from ..time_format import span

BEYOND = ("FAR BEYOND FORECAST", "RUNS", "TIMES", "TYPICALLY", "RAISED")
LINKS = ("GPUS ON A NODE", "RUNS", "GB/S", "AT BEST", "LOST")
SPREAD = ("SPREAD OVER NODES", "GPUS", "TYPE", "RUNS", "S/ITERATION", "SPREAD RUNS", "S/ITERATION", "SPEED")
TYPES = ("BY TYPE OF GPU", "GPUS", "TYPE", "RUNS", "SECONDS", "SPEED")
STRANDED = ("STRANDED BY", "USER", "GPU-HOURS FOR CPUS", "FOR MEMORY")
COLUMNS = ("WHO GAINS", "NAME", "JOBS", "SOONER", "LATER", "CHANGE")


@click.command()
@table_options
@click.pass_obj
def advice(app: App, as_json: bool) -> None:
    """Show which accounts and QOS gain or lose by our order.

    CHANGE is the average time by which the work ahead of a job ends sooner (negative) or later in our order than in
    Slurm's own, by the forecasts.

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

    The last one, which needs a daemon, shows the GPU-hours since its start that stood idle while jobs waited for GPUs,
    because the CPUs or the memory of their node were taken. The jobs of these accounts and users had more of them than
    the part of the node that belongs to their GPUs.
    """
    reply = app.answers().query("advice")
    parts = [sheet(reply["advice"])]
    if beyond := reply.get("overrunners"):
        parts.append(beyond_sheet(beyond))
    if links := reply.get("links"):
        parts.append(links_sheet(links))
    if spread := reply.get("spread"):
        parts.append(spread_sheet(spread))
    if types := reply.get("types"):
        parts.append(types_sheet(types))
    if stranded := reply.get("stranded"):
        parts.append(stranded_sheet(stranded))
    print_reply(reply, *parts, now_s=app.clock.now(), as_json=as_json)


def sheet(shares: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the shares as rows, greatest gain first."""
    rows = [(s["kind"], s["name"], s["jobs"], s["sooner"], s["later"], span(s["change_s"])) for s in shares]
    return TextTable(COLUMNS, rows)


def beyond_sheet(users: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the users as rows, in the order given."""
    rows = [(u["user"], u["runs"], round(u["times"]), span(u["length_s"]), f"{u['raised']:.0%}") for u in users]
    return TextTable(BEYOND, rows)


def links_sheet(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the use of links as rows, by number of GPUs."""
    cells = [(r["gpus"], r["runs"], f"{r['gbps']:.1f}", f"{r['best_gbps']:.1f}", f"{r['lost']:.0%}") for r in rows]
    return TextTable(LINKS, cells)


def spread_sheet(kinds: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the speeds of kinds of jobs on more nodes than they need as rows, in the order given."""
    cells = [
        (
            *(k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['iteration_s']:.3f}"),
            *(k["spread_runs"], f"{k['spread_iteration_s']:.3f}", f"{k['speed']:.0%}"),
        )
        for k in kinds
    ]
    return TextTable(SPREAD, cells)


def types_sheet(kinds: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return the speeds of kinds of jobs by type of GPU as rows, in the order given."""
    cells = [
        (k["kind"], k["gpus"], k["gpu_type"], k["runs"], f"{k['seconds']:.3g}", f"{k['speed']:.0%}") for k in kinds
    ]
    return TextTable(TYPES, cells)


def stranded_sheet(owners: Iterable[Mapping[str, Any]]) -> TextTable:
    """Return who left GPUs without CPUs or memory as rows, in the order given."""
    cells = [
        (o["account"] or "(none)", o["user"], f"{o['cpu_gpu_hours']:.1f}", f"{o['memory_gpu_hours']:.1f}")
        for o in owners
    ]
    return TextTable(STRANDED, cells)
