"""``slurmsched pareto``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.app import App
from ...cli.failure import Failed, NotFound
from ...cli.output import TextTable, emit, table_options
from ...cli.progress import bar
from ...cli.study.option_types import HistoryType, NodesType, WorkersType
from ...cli.study.simulate_keys import KeyedCommand, gone
from ...cli.study.simulate_options import SimulateOptions, workers_of
from ...cluster.text.plural import count

if TYPE_CHECKING:
    from ..elastic.applications import Applications
    from ..pareto.beside_slurm import BesideSlurm
    from ..pareto.search import Front, Point

FILE = click.Path(exists=True, dir_okay=False)
SPEEDUPS = "pcs_speedups.json"
BUDGET = {"evaluations": (4000, 400), "population": (50, 20)}
"""Defaults for elastic jobs, and beside slurmctld, where a simulation takes seconds."""

ELASTIC_ONLY = ("gpus", "load", "speedups", "delta")
SLURM_ONLY = ("nodes", "cluster_file", "forecast")


@click.command(cls=KeyedCommand, gone=gone("--cluster-name", "--backend", "--scheduler"))
@click.option("--trace", "trace", metavar="TRACE", help="A file of jobs, or synthetic:JOBS[:LOAD].")
@click.option(
    "--from-db",
    "history",
    type=HistoryType(),
    metavar="SPAN[@CLUSTER]",
    help="The last 12h, 30d, 4w of the database, of a CLUSTER.",
)
@click.option("--speedups", type=FILE, help=f"JSON file of speed-ups by job name.  [default: {SPEEDUPS} by TRACE]")
@click.option(
    "--executor",
    type=click.Choice(("elastic", "slurm")),
    default="elastic",
    help="elastic: jobs on any of their GPUs; slurm: as they are, beside a model of slurmctld.  [default: elastic]",
)
@click.option("--gpus", type=click.IntRange(1, 1_000_000), help="GPUs of the cluster, for elastic jobs.")
@click.option("--nodes", type=NodesType(), metavar="N[xGPUS]", help="Number of nodes, with GPUs of each if not 8.")
@click.option("--cluster", "cluster_file", type=FILE, help="A TOML file of nodes, partitions and QOS, not --nodes.")
@click.option("--forecast", help="What the order knows beside slurmctld, as in simulate.  [default: exact]")
@click.option("--objective", "objectives", multiple=True, help="jct, error or unfairness with :avg, :p90 or :p99.")
@click.option("--load", type=float, help="Draw jobs that arrive at random at this load.  [default: as they arrived]")
@click.option("--jobs", type=click.IntRange(10), default=300, help="Jobs in a sample, at most.  [default: 300]")
@click.option("--samples", type=click.IntRange(1), default=5, help="Samples per setting.  [default: 5]")
@click.option("--evaluations", type=click.IntRange(1), help="Simulations in total.  [default: 4000; beside slurm 400]")
@click.option("--population", type=click.IntRange(4), help="Settings tried at a time.  [default: 50; beside slurm 20]")
@click.option("--delta", type=float, help="Step size for lowering the cap.  [default: searched too]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of samples and search.  [default: 0]")
@click.option(
    "--state", "state_path", type=click.Path(dir_okay=False), help="State file, from which a stopped search continues."
)
@click.option(
    "--workers",
    type=WorkersType(),
    metavar="N|all|dask|ADDRESS",
    help="Processes: 4, all, dask or dask:4; or a Dask cluster's address.  [default: 1]",
)
@click.option("--html", "page_path", type=click.Path(dir_okay=False, writable=True), help="Write a page with charts.")
@table_options
@click.pass_obj
def pareto(
    app: App, /, trace: str | None, state_path: str | None, page_path: str | None, as_json: bool, **options: Any
) -> None:
    """Find Pareto-optimal settings of weighted fair queueing.

    Half of the jobs are used for the search, the other half for validation. Elastic jobs run on any part of the GPUs
    that they ask for. With --executor slurm they run as they are, ordered by the daemon's own cycle beside a model of
    slurmctld, and the error is that of what eta says of them; the nodes are those of Slurm, --nodes or --cluster.
    """
    from ..pareto.checkpoint import Notebook
    from ..pareto.objectives import DEFAULT, objectives_of
    from ..pareto.workloads import SearchSpec, search_on

    workers = workers_of(options["workers"])
    objectives = objectives_of(options["objectives"] or DEFAULT)
    _check(options)
    apps, beside, source = _jobs(app, trace, options)
    options["gpus"] = options["gpus"] if beside is None else beside.fleet.total
    for name, (elastic, slurm) in BUDGET.items():
        options[name] = options[name] or (elastic if beside is None else slurm)
    passed = ("gpus", "load", "jobs", "samples", "evaluations", "population", "delta", "seed")
    spec = SearchSpec(objectives, **{name: options[name] for name in passed})
    search, settings = search_on(apps, spec, beside)
    notebook = None if state_path is None else Notebook(Path(state_path), settings)
    with bar("simulations") as advance:
        front = search.run(workers, notebook, advance)
    jobs = count(len(apps), "job")
    head = (
        f"{source}: {jobs}; {_samples(search.train.samples, options['load'])} on {options['gpus']:,} GPUs, "
        f"{options['samples']} to search by and {options['samples']} to judge by"
    )
    if page_path is not None:
        _write_page(page_path, front, source, head)
    emit(_facts(front, settings, source), head, _sheet(front), *_lines(front), as_json=as_json)


def _check(options: dict[str, Any]) -> None:
    """Raise a usage error for options of the other executor."""
    unfit = ELASTIC_ONLY if options["executor"] == "slurm" else SLURM_ONLY
    for name in unfit:
        if options[name] is not None:
            option = "--cluster" if name == "cluster_file" else f"--{name}"
            raise click.UsageError(f"{option} goes with --executor {'elastic' if unfit is ELASTIC_ONLY else 'slurm'}.")
    if options["executor"] == "elastic" and options["gpus"] is None:
        raise click.UsageError("Say --gpus, the GPUs of the cluster.")


def _samples(samples: Sequence[Applications], load: float | None) -> str:
    jobs = count(len(samples[0]), "job")
    return f"windows of {jobs} as they arrived" if load is None else f"samples of {jobs} at load {load:.3g}"


def _jobs(app: App, trace: str | None, options: dict[str, Any]) -> tuple[Applications, BesideSlurm | None, str]:
    """Return the jobs, as elastic or as rigid ones, what replays rigid ones, and the source of the jobs."""
    from ...simulator.cluster_spec import ClusterSpec
    from ..elastic.applications import applications, read_speedups

    if (trace is None) == (options["history"] is None):
        raise click.UsageError("Say --trace TRACE or --from-db SPAN, one of them.")
    given = _simulate_options(trace, options)
    if options["executor"] == "slurm":
        return _rigid(app, given, options)
    (case,) = given.cases(app, ClusterSpec.of(1, options["gpus"]))
    curves = Path(options["speedups"]) if options["speedups"] else _curves_beside(trace)
    apps = applications(case.trace().workload, None if curves is None else read_speedups(curves))
    if not len(apps):
        raise NotFound(f"{case.source.name} holds no jobs with GPUs")
    return apps, None, case.source.name


def _rigid(app: App, given: SimulateOptions, options: dict[str, Any]) -> tuple[Applications, BesideSlurm, str]:
    """Return the jobs that could run on the cluster, and what replays them beside the slurmctld of a history."""
    from ...cli.study.replays import Replays
    from ...simulator.run import forecast_of
    from ...simulator.setup import LEARNT
    from ..pareto.beside_slurm import BesideSlurm, RigidJobs

    whole = Replays.of(app, given)
    (case,), (setup,), (left_out,) = whole.cases, whole.setups, whole.left_out
    jobs = case.trace().workload
    learnt = case.foresight(setup.forecast) if setup.forecast in LEARNT else None
    apps = RigidJobs.of(jobs, forecast_of(jobs, setup, learnt))
    if not len(apps):
        raise NotFound(f"{case.source.name} holds no jobs with GPUs that could run on these nodes")
    setup = replace(setup, slurm_config=given.slurm_config(app), associations=given.associations(app))
    without = f", without {count(len(left_out), 'job')} that could never run there" if left_out else ""
    return apps, BesideSlurm(whole.fleet, setup), f"{case.source.name}{without}"


def _curves_beside(trace: str | None) -> Path | None:
    """Return the file of speed-ups in the folder of the trace; None without one."""
    beside = None if trace is None else Path(trace).parent / SPEEDUPS
    return beside if beside is not None and beside.is_file() else None


def _simulate_options(trace: str | None, options: dict[str, Any]) -> SimulateOptions:
    """Return the options for nodes and jobs in the form of ``simulate``."""
    return SimulateOptions.of(
        history=options["history"],
        nodes=options["nodes"],
        pools=None,
        policies=("wfq",),
        traces=(trace,) if trace else (),
        workers=options["workers"],
        assignments=("selection=conservative",),
        executor="slurm",
        forecast=options["forecast"] or "exact",
        cluster_file=options["cluster_file"],
        baseline=False,
    )


def _write_page(path: str, front: Front, source: str, head: str) -> None:
    from ..pareto.page import page

    try:
        Path(path).write_text(page(front, f"Preferences for {source}", [head]), encoding="utf-8")
    except OSError as error:
        raise Failed(f"writing the page {path}: {error.strerror}") from error


def _facts(front: Front, settings: Any, source: str) -> dict[str, Any]:
    from ..pareto.page import line_of

    names = [objective.name for objective in front.objectives]

    def point_facts(point: Point) -> dict[str, Any]:
        sides = {side: dict(zip(names, values, strict=True)) for side, values in _sides(point)}
        if point.setting is None:
            return {"name": point.name} | sides
        setting = point.setting
        terms = asdict(setting) | {"correction": asdict(point.correction) if point.correction else None}
        return terms | sides | {"holds": point.holds, "setting": line_of(point)}

    return {
        "trace": source,
        "asked": dict(settings),
        "simulations": front.simulations,
        "points": [point_facts(point) for point in front.points],
        "extremes": [point_facts(point) for point in front.extremes],
    }


def _sides(point: Point) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return ("held_out", point.test), ("searched", point.train)


def _sheet(front: Front) -> TextTable:
    from ..pareto.page import shown

    heads = [f"{one.name.upper()} {side}" for side in ("HELD OUT", "SEARCHED") for one in front.objectives]
    rows: list[list[str | int | float | None]] = []
    for number, point in enumerate((*front.points, *front.extremes), 1):
        values = [
            shown(one, value)
            for side in (point.test, point.train)
            for one, value in zip(front.objectives, side, strict=True)
        ]
        setting = point.setting
        if setting is None:
            rows.append([point.name, None, None, None, None, *values])
            continue
        terms = (setting.zeta, setting.delta, setting.overtake)
        rows.append([str(number), len(setting.weights), *(float(f"{term:.3g}") for term in terms), *values])
    return TextTable(("POINT", "CLASSES", "ZETA", "DELTA", "OVERTAKE", *heads), rows)


def _lines(front: Front) -> list[str]:
    from ..pareto.page import line_of

    return [f"{number}: {line_of(point)}" for number, point in enumerate(front.points, 1)]
