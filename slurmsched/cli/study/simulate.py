"""``slurmsched simulate``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cluster.text.plural import count
from ..app import App
from ..failure import Failed
from ..output import emit, table_options
from .option_types import MappingType, PoolsType, RowsType, ShareType, SpanType
from .simulate_options import SimulateOptions

if TYPE_CHECKING:
    from ...simulator.case import Case
    from ...simulator.cluster_spec import ClusterSpec
    from ...simulator.setup import Setup
    from ...simulator.sweep import CellResult
    from ..json_answers import JobLeftOut, ReplayedTrace, Simulation

NAMED = 5  #: jobs left out that are named in text
ABOVE_0 = click.FloatRange(0, math.inf, min_open=True, max_open=True)
FILE = click.Path(exists=True, dir_okay=False)
FOLDER = click.Path(exists=True, file_okay=False)


@click.command()
@click.argument("traces", metavar="[TRACE]...", nargs=-1)
@click.option("--from-db", "from_db_s", type=SpanType(), metavar="SPAN", help="The last 12h, 30d, 4w of the database.")
@click.option("--cluster-name", help="The cluster, where the database has several.")
@click.option("--nodes", type=click.IntRange(1, 100_000), help="Number of nodes.")
@click.option("--gpus-per-node", type=click.IntRange(1, 64), help="GPUs of each node.  [default: 8]")
@click.option("--gpus", "pools", type=PoolsType(), help="A pool of GPUs of each type, not --nodes.")
@click.option("--cluster", "cluster_file", type=FILE, help="A TOML file of nodes, partitions and QOS, not --nodes.")
@click.option("--policy", "policies", multiple=True, help="An ordering, or a scaling of jobs that train; repeatable.")
@click.option("--policy-file", "policy_files", type=FILE, multiple=True, help="A policy in a TOML file; repeatable.")
@click.option("--preset", "presets", multiple=True, metavar="NAME", help="A named composition; repeatable.")
@click.option(
    "--config",
    "configs",
    type=FILE,
    multiple=True,
    help="The settings of a site: its whole policy, on a model of slurmctld; repeatable.",
)
@click.option(
    "--ckpt", type=ShareType(), metavar="all|none|FRACTION", help="Jobs that save their work and may be requeued."
)
@click.option(
    "--elastic",
    type=ShareType(),
    metavar="all|none|FRACTION",
    help="Jobs that can run on half to twice their GPUs, and save their work.",
)
@click.option(
    "--lean",
    type=ShareType(),
    metavar="all|none|FRACTION",
    help="Jobs that need no more CPUs and memory than belong to their GPUs.",
)
@click.option("--baseline/--no-baseline", default=True, help="Compare with a model of stock Slurm.  [default: yes]")
@click.option(
    "--selection",
    help="strict: nothing passes a job that does not fit; backfill: whatever fits; easy, conservative: what delays no "
    "reservation; preemptive: the best jobs run; also leases, yarn-cs, 3sigma. Default: what belongs to the ordering.",
)
@click.option("--placement", help="pool, first-free, consolidate, links and others.  [default: consolidate]")
@click.option(
    "--slowdowns",
    help="What tiresias-plus knows of jobs that spreading over nodes slows down: measured, from their runs so far, or "
    "exact.  [default: measured]",
)
@click.option("--sharing", help="none, indolent and others: who shares GPUs with whom, where the cluster allows it.")
@click.option(
    "--forecast",
    help="What orderings know: exact runtimes, the time limit, told or site estimates of a trace that has them, "
    "forecasts from history, or of a model trained on it every day.  [default: exact; with executor tasks told]",
)
@click.option(
    "--train", type=RowsType(), help="Jobs that forecasts learn from, as in --jobs.  [default: all before --jobs]"
)
@click.option("--admission", metavar="RULE", help="accept-all, or load:X: GPUs requested by admitted jobs over all.")
@click.option(
    "--executor",
    help="direct: plans happen as they are; slurm: a model of slurmctld starts the jobs; tasks: gangs of tasks in "
    "rounds, whose speed follows from the CPUs and the network of their servers.",
)
@click.option(
    "--load-control",
    help="With executor tasks, when training ends early: none, opt (more hardly helps), acc (the required accuracy), "
    "mlfs (both, the latter while the cluster is overloaded).  [default: none]",
)
@click.option(
    "--migrate",
    is_flag=True,
    help="With executor tasks: tasks leave overloaded servers. With slurm: jobs leave nodes with a load.",
)
@click.option(
    "--steer",
    is_flag=True,
    help="With executor slurm and --throughputs: jobs are sent to the type of GPU on which they end soonest.",
)
@click.option(
    "--resize",
    is_flag=True,
    help="With executor slurm: jobs of --elastic get the number of GPUs with which all jobs end soonest.",
)
@click.option(
    "--division", help="With --resize, who gets GPUs that are free: optimus, pollux or sia.  [default: optimus]"
)
@click.option(
    "--resize-nodes", is_flag=True, help="As --resize, and jobs on several nodes get more or fewer of them too."
)
@click.option(
    "--rightsize",
    is_flag=True,
    help="With executor slurm: waiting jobs of --lean get the CPUs and memory that belong to their GPUs.",
)
@click.option("--averaging", help="With executor tasks, how replicas average: server or ring.  [default: server]")
@click.option("--depth", type=click.IntRange(1), help="Pending jobs that a reserving selection considers.")
@click.option("--restart-cost", "restart_s", type=click.FloatRange(0), help="Seconds a preemption costs.")
@click.option(
    "--restart-doubling",
    "restart_doubling_s",
    type=click.FloatRange(0),
    help="Additional seconds per doubling of its GPUs.",
)
@click.option("--beat", "beat_s", type=click.FloatRange(0), help="Seconds between decisions; 0: at each event.")
@click.option("--jobs", "taken", type=RowsType(), help="Only these jobs, in order of submission from 0, B left out.")
@click.option("--stops", type=FILE, help="The part of its work after which each job converges, and stops.")
@click.option("--measure", type=RowsType(), help="Only these of the replayed jobs count in the figures about jobs.")
@click.option("--until-measured", is_flag=True, help="Stop once the jobs of --measure have ended.")
@click.option("--scale-load", "loads", type=ABOVE_0, multiple=True, help="Factor on the arrival rate of jobs.")
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, help="Seed of all random choices; repeatable.")
@click.option("--habits", is_flag=True, help="Attach made-up users, names and time limits to the jobs of files.")
@click.option("--applications", type=FOLDER, help="A directory of measured applications: the jobs train, by a scaling.")
@click.option("--throughputs", type=FILE, help="Speeds of models by type of GPU: the jobs train, by a scaling.")
@click.option("--profiles", type=FILE, help="Speeds of models by CPUs and memory: the jobs train, by a scaling.")
@click.option(
    "--interference",
    type=click.FloatRange(0, 1, max_open=True),
    help="Part of its speed that a training job on several nodes loses where it shares one with another such job.",
)
@click.option("--cpu-jobs", is_flag=True, help="Keep jobs without GPUs.")
@click.option(
    "--map-partitions",
    "mapping",
    type=MappingType(),
    multiple=True,
    metavar="all|NAME=NAME",
    help="Map a partition of the trace to one of the cluster, or all to any; repeatable.",
)
@click.option("--strict", is_flag=True, help="Fail on jobs that could never run, rather than omit them.")
@click.option("--format", "form", help="The trace's format, where its first lines do not show it.")
@click.option("--backend", type=click.Choice(["loky", "dask"]), help="Local processes, or a Dask cluster.")
@click.option("--workers", type=click.IntRange(1), help="Number of processes.  [default: 1; with --backend all CPUs]")
@click.option("--scheduler", metavar="ADDRESS", help="Address of a running Dask cluster: tcp://host:8786.")
@click.option("--check", is_flag=True, help="Verify that the result is feasible.")
@click.option("--html", "page_path", type=click.Path(dir_okay=False, writable=True), help="Write a page with charts.")
@click.option("--csv", "csv_wanted", is_flag=True, help="Print one CSV line per run.")
@table_options
@click.pass_obj
def simulate(app: App, /, check: bool, page_path: str | None, csv_wanted: bool, as_json: bool, **options: Any) -> None:
    """Replay TRACE under one or more policies and compare them.

    TRACE is a file of jobs, synthetic:JOBS[:LOAD], or a TOML file that describes a workload. Each trace, load and seed
    gets a comparison of its own. Jobs removed or corrected in the trace are listed.

    With --from-db alone, or with --policy, the rows are stock Slurm, what the settings would bring beside it with its
    fair share, their cap on points and forecasts from earlier runs, and the ideal. GAIN is the mean JCT of the first
    row over that of a row, with the interval of 90 % of redraws; one that includes 1 is no sure gain.
    """
    from .comparison import as_csv, sheet
    from .replays import Replays

    chosen = SimulateOptions(**options)
    if chosen.until_measured and (check or page_path):
        raise click.UsageError("--until-measured goes without --check and --html, which need the end of every job.")
    whole = Replays.of(app, chosen)
    fleet, setups = whole.fleet, whole.setups
    if page_path and len(whole.cases) > 1:
        raise click.UsageError("--html makes one page of one trace, load and seed: say each of them once.")
    traces = [_trace_facts(case, out) for case, out in zip(whole.cases, whole.left_out, strict=True)]
    setup_notes = [*whole.first_notes, *_notes_on_setups(setups, fleet), *whole.notes]
    rows = whole.rows(lambda together: _write_page(page_path, together), check=check)
    if csv_wanted:
        click.echo(as_csv(rows), nl=False)
        return
    facts: Simulation = {
        "traces": traces,
        "nodes": len(fleet.nodes),
        "gpus": fleet.total,
        "gpus_per_node": fleet.size if fleet.equal else None,
        "notes": setup_notes,
        "policies": [row.facts() for row in rows],
    }
    heads = [_head(head, fleet) for head in traces]
    done = [note for head in traces for note in [*head["notes"], *_missing(head["left_out"])]]
    notes = [f"note: {note}" for note in [*done, *setup_notes[len(whole.first_notes) :]]]
    emit(facts, *dict.fromkeys([*whole.first_notes, *heads, *notes]), sheet(rows), as_json=as_json)


def _missing(left_out: Sequence[JobLeftOut]) -> Iterator[str]:
    """Describe the jobs that are not replayed, and why."""
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
