"""``slurmsched what-if``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...cluster.text.plural import count, gpus_of_type
from ...errors import MemoryUnavailable
from ..app import App
from ..failure import wrong_usage
from ..output import TextTable, emit, table_options
from ..progress import bar
from ..time_format import moment, span
from .settings_in_force import IDEAL, associations_of, fair_share_notes, reach

if TYPE_CHECKING:
    from ...cluster.nodes import NodeTable
    from ...config import Settings
    from ...db.store import Store
    from ...decide.policy import Policy
    from ...foresee.whatif import Comparison, LeftOut, Option
    from ...simulator.workload.workload import Workload
    from ..json_answers import MoreNodes, WhatIf

NAMED = 5
_DRAWN = "runtimes are drawn {} times from the forecasts, which is what policies know"

COLUMNS = ("WHAT IF", "STARTS", "MEAN WAIT", "MEDIAN WAIT", "MEAN END", "LAST ENDS", "SOONER", "LATER", "GAIN")
ORDER = ("WHAT IF", "GAIN", "MEAN WAIT", "SOONER", "LATER", "MEAN END", "LAST ENDS")

KINDS = {
    "held": "held by a user or an admin",
    "blocked": "waiting for something that is not simulated",
    "unshown": "which nodes may run that Slurm does not show",
    "unfit": "requesting resources that the nodes do not have",
    "stuck": "that never start",
}


@click.command("what-if")
@click.option("--policy", "policies", metavar="NAME", multiple=True, help="An ordering in act mode; repeatable.")
@click.option(
    "--add-nodes", "more", type=click.IntRange(1, 10_000), metavar="N", help="Repeat all of these with N more nodes."
)
@click.option(
    "--like", metavar="NODE", help="The node they are copies of. Default: the usual GPU node of most queued jobs."
)
@table_options
@click.pass_obj
def what_if(app: App, policies: tuple[str, ...], more: int | None, like: str | None, as_json: bool) -> None:
    """Simulate the effect of another policy or more nodes on pending jobs.

    Simulates the queue to its end from Slurm's current state: under the present policy, under each --policy (by default
    that of the settings, if it does not act yet), and with --add-nodes each of these again with the additional nodes.
    Last comes the ideal of each policy, which no site reaches. Runtimes are drawn from the forecasts, several times;
    policies know the forecasts alone, and fair share and the cap on points count. GAIN is the mean JCT of the first row
    over that of a row, as in simulate. Writes nothing anywhere.
    """
    if like and not more:
        raise click.UsageError("--like goes with --add-nodes.")
    settings = app.settings()
    with bar("reading Slurm and the history"):
        from ..daemon.build import build  # this takes a moment too

        facts_of_slurm, daemon = app.cluster().facts(), build(app, dry=True)
        config, associations = facts_of_slurm.config, associations_of(app)
        try:
            report = daemon.dry_run(app.clock.now())
            past = _past(daemon.parts.store, facts_of_slurm.cluster, report.now_s, config)
        finally:
            daemon.close()
    ours, arrivals, view = daemon.controller.policy, daemon.controller.arrivals, report.view
    from_database = "database" not in report.fallbacks
    with wrong_usage():
        options = list(_options(settings, ours, policies))
    if not len(view.pending):
        facts: WhatIf = {
            "as_of_s": view.now_s,
            "queued": 0,
            "running": len(view.running),
            "database": from_database,
            "rows": [],
        }
        return emit(facts, f"no job waits, as of {moment(view.now_s)}", as_json=as_json)
    from ...foresee.whatif import compare, copies

    nodes = copies(view, more, like or "") if more else None
    if nodes is not None:
        options = [way for option in options for way in (option, _with_nodes(option, nodes))]
    options += [_ideal(name) for name in _orderings(settings, ours, policies)]
    with bar(f"playing the queue of {len(view.pending)} forward") as progress:
        result = compare(view, config, options, settings.daemon.every_s, arrivals, past, progress, associations)
    bound = f"our order: {reach(ours.rules, view.qos, config)}"
    head = [
        *result.assumed,
        *fair_share_notes(config, associations, past is not None),
        *_head(result, settings, ours, from_database),
    ]
    notes = [*head, bound, *_nodes(nodes)]
    emit(_facts(result, nodes, from_database), *notes, _sheet(result), *_after(result), as_json=as_json)
    return None


def _options(settings: Settings, ours: Policy, policies: tuple[str, ...]) -> Iterator[Option]:
    """Yield the current policy first, then each policy in act mode under the settings; by default theirs."""
    from ...foresee.whatif import Option
    from ...policies.contract import find_ordering

    yield Option("as now", ours if _steers(settings) else None)
    rules = replace(ours.rules, powers=ours.rules.powers | {"order"})
    for name in _orderings(settings, ours, policies):
        if policies or not _steers(settings):
            yield Option(name, replace(ours, ordering=find_ordering(name), rules=rules))


def _orderings(settings: Settings, ours: Policy, policies: tuple[str, ...]) -> list[str]:
    """Return the orderings in question: *policies*, by default that of the settings."""
    return list(dict.fromkeys(policies or (() if ours.ordering.native else (ours.ordering.line,))))


def _ideal(name: str) -> Option:
    """Return the ordering as no site has it: over the whole queue, by the runtimes that jobs will need."""
    from ...foresee.whatif import Option
    from ...policies.contract import find_ordering
    from ...simulator.cycle_driver import whole_queue

    return Option(f"{name}, {IDEAL}", whole_queue(find_ordering(name)), exact=True)


def _past(store: Store, cluster: str, now_s: float, config: Mapping[str, str]) -> Workload | None:
    """Return the runs that fair share knows; None where it does not count, or the database does not answer."""
    from ...simulator.slurmctld.slurmconf import SlurmConf
    from ...simulator.traces.database import past_runs

    if not SlurmConf.of(config).weights.fair_share:
        return None
    with suppress(MemoryUnavailable):
        return past_runs(store, cluster, now_s)[1]
    return None


def _steers(settings: Settings) -> bool:
    return settings.daemon.mode == "act" and settings.power.order


def _with_nodes(option: Option, nodes: NodeTable) -> Option:
    return replace(option, name=f"{option.name} + {count(len(nodes), 'node')}", more=nodes)


def _head(result: Comparison, settings: Settings, ours: Policy, from_database: bool) -> Iterator[str]:
    """Describe the simulated state and the assumptions."""
    yield f"{count(result.queued, 'job')} waiting, {result.running} running, as of {moment(result.now_s)}"
    now = f"{ours.ordering.line}, in act mode" if _steers(settings) else "Slurm's own order, slurmsched not acting"
    yield f"as now: {now}; times are from now on, of the {count(result.counted, 'job')} that start under every row"
    times = "forecasts have no interval, and count as true" if result.draws == 1 else _DRAWN.format(result.draws)
    yield f"assumed: {times}; no further jobs arrive, nodes do not change"
    if any(row.name.endswith(IDEAL) for row in result.rows):
        yield f"{IDEAL}: exact runtimes, no fair share, no cap on points: no site reaches it"
    if not from_database:
        yield "the database is away: forecasts are time limits"
    elif result.guessed:
        yield f"{count(result.guessed, 'job')} of these have no history behind the forecast, which is the time limit"
    if result.suspended:
        yield f"{count(result.suspended, 'suspended job')} assumed to stay so and keep their GPUs"
    if result.beyond:
        yield f"{count(result.beyond, 'task')} of arrays not simulated: the queue is too long"


def _nodes(nodes: NodeTable | None) -> Iterator[str]:
    if nodes is not None:
        gpu_type = f" of type {nodes.gpu_type[0]}" if nodes.gpu_type[0] else ""
        what = f"{gpus_of_type(int(nodes.gpus[0]), nodes.gpu_type[0])}{gpu_type}"
        yield f"more nodes: {len(nodes)} with {what} each, in {nodes.partitions[0]}; with as now and with each policy"


def _sheet(result: Comparison) -> TextTable:
    rows = [
        [
            row.name,
            row.starts,
            *(span(value) for value in (row.mean_wait_s, row.median_wait_s, row.mean_end_s)),
            moment(result.now_s + row.last_end_s, result.now_s),
            row.sooner if number else None,
            row.later if number else None,
            None if row.gain is None else str(row.gain),
        ]
        for number, row in enumerate(result.rows)
    ]
    return TextTable(COLUMNS, rows, ORDER)


def _after(result: Comparison) -> Iterator[str]:
    """Describe the users worst off in each row, and the jobs left out of all rows."""
    for row in result.rows:
        if row.worst_off and not row.name.endswith(IDEAL):
            users = (f"{one.user} +{span(one.wait_s)} ({count(one.jobs, 'job')})" for one in row.worst_off)
            yield f"worst off under {row.name}, mean wait: {', '.join(users)}"
    for kind, words in KINDS.items():
        some = [one for one in result.left_out if one.kind == kind]
        if some:
            tasks = sum(one.tasks for one in some)
            more = f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
            yield f"left out, {words}: {count(tasks, 'job')}: {', '.join(map(_left_out_text, some[:NAMED]))}{more}"


def _left_out_text(one: LeftOut) -> str:
    return f"{one.job_id} ({one.why})"


def _facts(result: Comparison, nodes: NodeTable | None, from_database: bool) -> WhatIf:
    more: MoreNodes | None = None
    if nodes is not None:
        more = {"count": len(nodes), "gpus": int(nodes.gpus[0]), "partitions": nodes.partitions[0]}
    return {
        "as_of_s": result.now_s,
        "queued": result.queued,
        "counted": result.counted,
        "running": result.running,
        "suspended": result.suspended,
        "beyond": result.beyond,
        "guessed": result.guessed,
        "draws": result.draws,
        "left_out": result.left_out,
        "rows": result.rows,
        "assumed": result.assumed,
        "database": from_database,
        "more_nodes": more,
    }
