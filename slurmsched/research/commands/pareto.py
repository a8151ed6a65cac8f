"""``slurmsched pareto``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.app import App
from ...cli.failure import Failed, NotFound
from ...cli.output import TextTable, emit, table_options
from ...cli.progress import bar
from ...cli.study.option_types import HistoryType, WorkersType
from ...cli.study.simulate_keys import KeyedCommand, gone
from ...cli.study.simulate_options import workers_of
from ...cluster.text.plural import count

if TYPE_CHECKING:
    from ..elastic.applications import Applications
    from ..pareto.search import Front, Point

FILE = click.Path(exists=True, dir_okay=False)
SPEEDUPS = "pcs_speedups.json"


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
@click.option("--gpus", type=click.IntRange(1, 1_000_000), required=True, help="GPUs of the cluster.")
@click.option("--objective", "objectives", multiple=True, help="jct, error or unfairness with :avg, :p90 or :p99.")
@click.option("--load", type=float, help="Draw jobs that arrive at random at this load.  [default: as they arrived]")
@click.option("--jobs", type=click.IntRange(10), default=300, help="Jobs in a sample, at most.  [default: 300]")
@click.option("--samples", type=click.IntRange(1), default=5, help="Samples per setting.  [default: 5]")
@click.option("--evaluations", type=click.IntRange(1), default=4000, help="Simulations in total.  [default: 4000]")
@click.option("--population", type=click.IntRange(4), default=50, help="Settings tried at a time.  [default: 50]")
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

    Jobs of the trace are assumed to be elastic. Half of them are used for the search, the other half for validation.
    """
    from ..pareto.checkpoint import Notebook
    from ..pareto.objectives import DEFAULT, objectives_of
    from ..pareto.workloads import SearchSpec, search_on

    workers = workers_of(options["workers"])
    objectives = objectives_of(options["objectives"] or DEFAULT)
    apps, source = _applications(app, trace, options)
    passed = ("gpus", "load", "jobs", "samples", "evaluations", "population", "delta", "seed")
    search, settings = search_on(apps, SearchSpec(objectives, **{name: options[name] for name in passed}))
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


def _samples(samples: Sequence[Applications], load: float | None) -> str:
    jobs = count(len(samples[0]), "job")
    return f"windows of {jobs} as they arrived" if load is None else f"samples of {jobs} at load {load:.3g}"


def _applications(app: App, trace: str | None, options: dict[str, Any]) -> tuple[Applications, str]:
    """Return the jobs as elastic ones, and their source."""
    from ...simulator.traces.source import Source
    from ..elastic.applications import applications, read_speedups

    if (trace is None) == (options["history"] is None):
        raise click.UsageError("Say --trace TRACE or --from-db SPAN, one of them.")
    if trace is None:
        return _history(app, options)
    jobs = Source.of(trace, options["gpus"]).load().workload
    beside = Path(trace).parent / SPEEDUPS
    curves = Path(options["speedups"]) if options["speedups"] else beside if beside.is_file() else None
    apps = applications(jobs, None if curves is None else read_speedups(curves))
    if not len(apps):
        raise Failed(f"{trace} holds no jobs with GPUs")
    return apps, Path(trace).name


def _history(app: App, options: dict[str, Any]) -> tuple[Applications, str]:
    from ...simulator.traces.database import from_store
    from ..elastic.applications import applications, read_speedups

    store, (span_s, name) = app.store(), options["history"]
    clusters = store.clusters()
    if not clusters:
        raise NotFound("the database holds no runs; try: slurmsched history import")
    if name is not None and name not in clusters:
        raise NotFound(f"the database holds no runs of cluster {name}; there are: {', '.join(clusters)}")
    if name is None and len(clusters) > 1:
        names = ", ".join(clusters)
        raise click.UsageError(f"The database knows several clusters; say --from-db SPAN@NAME with one of {names}.")
    name = name or clusters[0]
    trace = from_store(store, name, app.clock.now() - span_s, cpu_jobs=False)
    apps = applications(trace.workload, read_speedups(Path(options["speedups"])) if options["speedups"] else None)
    if not len(apps):
        raise NotFound(f"the database holds no runs of cluster {name} with GPUs in that time")
    return apps, f"history of {name}"


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
