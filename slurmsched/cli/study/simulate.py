"""``slurmsched simulate``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cluster.text.plural import count
from ...simulator.examples import EXAMPLES
from ..app import App
from ..failure import Failed
from ..output import emit, table_options
from .option_types import HistoryType, NodesType, PoolsType, RowsType, ShareType, WorkersType
from .simulate_keys import FILE, KeyedCommand
from .simulate_options import SimulateOptions

if TYPE_CHECKING:
    from ...simulator.case import Case
    from ...simulator.cluster_spec import ClusterSpec
    from ...simulator.setup import Setup
    from ...simulator.sweep import CellResult
    from ..json_answers import JobLeftOut, ReplayedTrace, Simulation

ABOVE_0 = click.FloatRange(0, math.inf, min_open=True, max_open=True)


def write_example(context: click.Context, option: click.Parameter, name: str | None) -> None:
    """Write the example *name* into this directory and end; Failed where such a file is there already."""
    if name is None:
        return
    path = Path(f"{name}.toml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(EXAMPLES[name])
    except OSError as error:
        raise Failed(f"writing {path}: {error.strerror}") from error
    click.echo(f"wrote {path}; its first line is a command that reads it")
    context.exit()


@click.command(cls=KeyedCommand)
@click.argument("traces", metavar="[TRACE]...", nargs=-1)
@click.option(
    "--from-db",
    "history",
    type=HistoryType(),
    metavar="SPAN[@CLUSTER]",
    help="The last 12h, 30d, 4w of the database, of a CLUSTER.",
)
@click.option("--nodes", type=NodesType(), metavar="N[xGPUS]", help="Number of nodes, with GPUs of each if not 8.")
@click.option(
    "--gpus", "pools", type=PoolsType(), metavar="TYPE=N[xGPUS],...", help="A pool of GPUs of each type, not --nodes."
)
@click.option("--cluster", "cluster_file", type=FILE, help="A TOML file of nodes, partitions and QOS, not --nodes.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="TEXT|FILE.toml",
    help="An ordering, a scaling of jobs that train, or a policy in a TOML file; repeatable.",
)
@click.option("--preset", "presets", multiple=True, metavar="NAME", help="A named composition; repeatable.")
@click.option(
    "--config",
    "configs",
    type=FILE,
    multiple=True,
    help="The settings of a site: its whole policy, on a model of slurmctld; repeatable.",
)
@click.option(
    "--executor",
    help="direct: plans happen as they are; slurm: a model of slurmctld starts the jobs; tasks: gangs of tasks in "
    "rounds, whose speed follows from the CPUs and the network of their servers.",
)
@click.option(
    "--forecast",
    help="What orderings know: exact runtimes, the time limit, told or site estimates of a trace that has them, "
    "forecasts from history, or of a model trained on it every day.  [default: exact; with executor tasks told]",
)
@click.option(
    "--ckpt", type=ShareType(), metavar="all|none|FRACTION", help="Jobs that save their work and may be requeued."
)
@click.option("--jobs", "taken", type=RowsType(), help="Only these jobs, in order of submission from 0, B left out.")
@click.option("--load", "loads", type=ABOVE_0, multiple=True, help="Factor on the arrival rate of jobs; repeatable.")
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, help="Seed of all random choices; repeatable.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of policy or trace files (docs/reference/simulate-keys.md), for what these leave open; repeatable.",
)
@click.option("--baseline/--no-baseline", default=True, help="Compare with a model of stock Slurm.  [default: yes]")
@click.option(
    "--workers",
    type=WorkersType(),
    metavar="N|all|dask|ADDRESS",
    help="Processes: 4, all, dask or dask:4; or a Dask cluster's address.",
)
@click.option("--check", is_flag=True, help="Verify that the result is feasible.")
@click.option("--html", "page_path", type=click.Path(dir_okay=False, writable=True), help="Write a page with charts.")
@click.option("--csv", "csv_wanted", is_flag=True, help="Print one CSV line per run.")
@click.option(
    "--example",
    type=click.Choice(sorted(EXAMPLES)),
    is_eager=True,
    expose_value=False,
    callback=write_example,
    help="Write NAME.toml here, to begin with, and end.",
)
@table_options
@click.pass_obj
def simulate(app: App, /, check: bool, page_path: str | None, csv_wanted: bool, as_json: bool, **options: Any) -> None:
    """Replay TRACE under one or more policies and compare them.

    TRACE is a file of jobs, synthetic:JOBS[:LOAD], or a TOML file that describes a workload, or a trace and how to
    read it. Each trace, load and seed gets a comparison of its own. Jobs removed or corrected in the trace are listed.

    With --from-db alone, or with --policy, the rows are stock Slurm, what the settings would bring beside it with its
    fair share, their cap on points and forecasts from earlier runs, and the ideal. GAIN is the mean JCT of the first
    row over that of a row, with the interval of 90 % of redraws; one that includes 1 is no sure gain.
    """
    from .comparison import as_csv, sheet, unfinished_notes
    from .replays import Replays

    chosen = SimulateOptions.of(**options)
    if chosen.until_measured and (check or page_path):
        raise click.UsageError("until_measured goes without --check and --html, which need the end of every job.")
    whole = Replays.of(app, chosen)
    fleet, setups = whole.fleet, whole.setups
    if page_path and len(whole.cases) > 1:
        raise click.UsageError("--html makes one page of one trace, load and seed: say each of them once.")
    traces = [_trace_facts(case, out) for case, out in zip(whole.cases, whole.left_out, strict=True)]
    setup_notes = [*whole.first_notes, *_notes_on_setups(setups, fleet), *whole.notes]
    rows = whole.rows(lambda together: _write_page(page_path, together), check=check)
    first_notes = [*unfinished_notes(rows), *whole.first_notes]
    if csv_wanted:
        click.echo(as_csv(rows), nl=False)
        return
    facts: Simulation = {
        "traces": traces,
        "nodes": len(fleet.nodes),
        "gpus": fleet.total,
        "gpus_per_node": fleet.size if fleet.equal else None,
        "notes": [*unfinished_notes(rows), *setup_notes],
        "policies": [row.facts() for row in rows],
    }
    heads = [_head(head, fleet) for head in traces]
    done = [note for head in traces for note in [*head["notes"], *_missing(head["left_out"])]]
    notes = [f"note: {note}" for note in [*done, *setup_notes[len(whole.first_notes) :]]]
    emit(facts, *dict.fromkeys([*first_notes, *heads, *notes]), sheet(rows), as_json=as_json)


def _missing(left_out: Sequence[JobLeftOut]) -> Iterator[str]:
    """Describe the jobs that are not replayed, and why."""
    from .replays import NAMED

    if left_out:
        listed = ", ".join(f"{one['job_id']} ({one['why']})" for one in left_out[:NAMED])
        more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
        yield f"left out, too large even for an empty cluster: {count(len(left_out), 'job')}: {listed}{more}"


def _trace_facts(case: Case, left_out: list[JobLeftOut]) -> ReplayedTrace:
    trace = case.trace()
    return {
        "file": case.source.name,
        "format": trace.format,
        "jobs": len(trace),
        "load": case.load,
        "seed": case.seed,
        "notes": [*map(str, trace.notes), *_notes_on_figures(case)],
        "left_out": left_out,
    }


def _notes_on_figures(case: Case) -> Iterator[str]:
    """Describe the jobs that count."""
    if case.measure is not None:
        yield f"figures about jobs are those of jobs {case.measure}; the others run beside them"


def _notes_on_setups(setups: Sequence[Setup], fleet: ClusterSpec) -> list[str]:
    """Return notes on these policies and this cluster for the user."""
    alone = []
    for setup in setups:
        shares = fleet.sharing is not None and setup.executor == "direct"
        if setup.ordering.name == "lucid" and not setup.sharing and not shares:
            alone.append(setup.label)
    unlinked = [f"placement {name}" for name in _by_links(setups)] if not fleet.links else []
    text = (
        "the order alone, which is that of qssf; jobs share GPUs under the executor direct, where the file of "
        "--cluster has a [sharing] table of measured pairs"
    )
    no_links = "the cluster has no [nodes.links]; any free GPU of a node serves"
    notes = ((alone, text), (unlinked, no_links))
    return [f"{', '.join(dict.fromkeys(names))}: {text}" for names, text in notes if names]


def _by_links(setups: Sequence[Setup]) -> list[str]:
    """Return the placements of *setups* that choose GPUs by links."""
    from ...policies.contract import PLACEMENTS

    named = [setup.placement for setup in setups if setup.placement in PLACEMENTS]
    return [name for name in named if PLACEMENTS[name].links]


def _head(trace: ReplayedTrace, fleet: ClusterSpec) -> str:
    nodes = count(len(fleet.nodes), "node")
    each = f"of {count(fleet.size, 'GPU')}" if fleet.equal else f"with {count(fleet.total, 'GPU')}"
    return f"{trace['file']}: {count(trace['jobs'], 'job')} ({trace['format']}) on {nodes} {each}"


def _titled(case: Case) -> str:
    """Return the title of *case* on a page: a file by its name alone."""
    name = Path(case.source.path).name if case.source.name == case.source.path else case.source.name
    return str(replace(case, source=replace(case.source, name=name)))


def _write_page(path: str | None, runs: Sequence[CellResult]) -> None:
    if path is None:
        return
    from ...simulator.report.page import page

    case = runs[0].cell.case
    text = page(
        [run.replay for run in runs],
        f"Policies compared on {_titled(case)}",
        [str(note) for note in case.trace().notes],
    )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"writing the page {path}: {error.strerror}") from error
