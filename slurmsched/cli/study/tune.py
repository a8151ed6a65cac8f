"""``slurmsched tune``."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from ...cluster.text.plural import count
from ..app import App
from ..output import Cell, TextTable, emit, table_options
from ..progress import bar
from .simulate_options import SimulateOptions, SpanType

if TYPE_CHECKING:
    from ...config import Settings
    from ...simulator.studies.tuning.knobs import Knobs
    from ...simulator.studies.tuning.search import TuningResult
    from ...simulator.studies.tuning.trial import TuningSite
    from ...simulator.workload.workload import Workload

FILE = click.Path(exists=True, dir_okay=False)
MONTH_S = 30 * 86400.0


@click.command()
@click.option("--trace", metavar="TRACE", help="A file of jobs, or synthetic:JOBS[:LOAD], not the database.")
@click.option("--from-db", "from_db_s", type=SpanType(), metavar="SPAN", help="How much history.  [default: 30d]")
@click.option("--cluster-name", help="The cluster, where the database has several.")
@click.option("--nodes", type=click.IntRange(2, 100_000), help="Number of nodes.")
@click.option("--gpus-per-node", type=click.IntRange(1, 64), help="GPUs of each node.  [default: 8]")
@click.option("--cluster", "cluster_file", type=FILE, help="A TOML file of nodes, partitions and QOS, not --nodes.")
@click.option("--ordering", help="The order of the queue.  [default: policy.ordering]")
@click.option(
    "--profile-nodes", type=click.IntRange(0), default=0, help="Nodes of the profiling partition now.  [default: 0]"
)
@click.option(
    "--gpu-memory", type=click.FloatRange(0), help="MiB that two jobs may use together.  [default: share.memory_mib]"
)
@click.option("--evaluations", type=click.IntRange(2), default=30, help="Number of settings to try.  [default: 30]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the search and of the noise.  [default: 0]")
@click.option("--workers", type=click.IntRange(1), default=1, help="Number of processes.  [default: 1]")
@table_options
@click.pass_obj
def tune(app: App, /, as_json: bool, **options: Any) -> None:
    """Search for better settings by simulating the site's own last month.

    Tries limits and width of profiling, nodes for it, degrees of GPU sharing, and the parameters of the ordering. The
    last seven days take no part in the search: the best settings found are recommended only where they are better on
    these days too, by more than the variation between days. Changes nothing.
    """
    from ...simulator.studies.tuning.knobs import KnobSpace
    from ...simulator.studies.tuning.search import tuned

    if options["trace"] and options["from_db_s"] is not None:
        raise click.UsageError("--trace and --from-db exclude each other: jobs come from one of them.")
    settings = app.settings()
    current = _current(settings, options)
    site = _site(app, settings, options)
    fleet = site.fleet
    if options["profile_nodes"] >= len(fleet.nodes):
        raise click.UsageError(f"--profile-nodes takes some of the {len(fleet.nodes)} nodes, and leaves at least one.")
    if options["profile_nodes"] and not site.profiling:
        raise click.UsageError("--profile-nodes needs nodes of one size without partitions of their own.")
    space = KnobSpace.of(
        current,
        nodes=len(fleet.nodes),
        gpus=fleet.size,
        profiling=site.profiling,
        sharing=site.sharing,
        widest=int(site.jobs.gpus.max()),
    )
    with bar("simulations") as advance:
        verdict = tuned(
            site,
            current,
            space,
            **{name: options[name] for name in ("evaluations", "seed", "workers")},
            progress=advance,
        )
    _print_verdict(site, verdict, settings, as_json=as_json)


def _current(settings: Settings, options: dict[str, Any]) -> Knobs:
    from ...policies.contract import find_ordering
    from ...simulator.studies.tuning.knobs import Knobs

    return Knobs(
        settings.profile.t_s,
        settings.profile.n_max,
        options["profile_nodes"],
        settings.share.capacity if settings.power.share else 0,
        find_ordering(options["ordering"] or settings.policy.ordering).line,
    )


def _site(app: App, settings: Settings, options: dict[str, Any]) -> TuningSite:
    """Return the jobs with all known data about them."""
    from ...models.registry import shipped
    from ...models.sharing.sharing_model import SharingModel
    from ...simulator.studies.tuning.trial import TuningSite
    from ...simulator.trace_forecasts import learnt

    simulate_options = _simulate_options(options)
    fleet = simulate_options.fleet()
    case = simulate_options.cases(app, fleet)[0]
    jobs = case.trace().workload
    if options["trace"] is None:
        jobs = _measured(app, jobs, options["cluster_name"])
    gpu_mib = settings.share.memory_mib if options["gpu_memory"] is None else options["gpu_memory"]
    scores = shipped().read_as(SharingModel.of_document)
    return TuningSite(jobs, learnt(jobs), fleet, scores, gpu_mib, settings.profile.wait_s)


def _simulate_options(options: dict[str, Any]) -> SimulateOptions:
    """Return the options for nodes and jobs in the form of ``simulate``."""
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(SimulateOptions))
    span_s = None if options["trace"] else options["from_db_s"] or MONTH_S
    given = {name: options[name] for name in ("cluster_name", "nodes", "gpus_per_node", "cluster_file")}
    return SimulateOptions(
        **nothing
        | given
        | {"traces": (options["trace"],) if options["trace"] else (), "from_db_s": span_s}
        | {"cpu_jobs": False, "loads": (), "seeds": (), "mapping": (), "presets": (), "configs": ()}
    )


def _measured(app: App, jobs: Workload, cluster_name: str | None) -> Workload:
    """Return the jobs with the nodes' measurements."""
    from ...simulator.studies.tuning.trial import with_use

    store = app.store()
    name = cluster_name or store.clusters()[0]
    return with_use(jobs, ((run[0], use) for run, _, use in store.measured(name, float(jobs.submit_s.min()))))


def _print_verdict(site: TuningSite, verdict: TuningResult, settings: Settings, *, as_json: bool) -> None:
    jobs, measured = len(site.jobs), int((site.jobs.gpu_util == site.jobs.gpu_util).sum())
    heads = [f"{count(jobs, 'job')}, {measured:,} measured; {count(verdict.trials, 'simulation')}"]
    if not site.sharing:
        heads.append("sharing was not tried: it needs measured jobs, and --gpu-memory or share.memory_mib")
    if not site.profiling:
        heads.append("a profiling partition was not tried: it takes nodes of one size without partitions of their own")
    both = (asdict(verdict.current), asdict(verdict.best))
    rows: list[list[Cell]] = [[name, both[0][name], both[1][name]] for name in both[0]]
    rows += [
        [f"mean JCT {name}, s", float(f"{gain.current_s:.5g}"), float(f"{gain.tuned_s:.5g}")]
        for name, gain in (("searched", verdict.searched), ("held out", verdict.held_out))
    ]
    lines = _lines(site, verdict, settings) if verdict.recommended else []
    facts = {
        "jobs": jobs,
        "measured": measured,
        "simulations": verdict.trials,
        "current": both[0],
        "best": both[1],
        "searched": asdict(verdict.searched),
        "held_out": asdict(verdict.held_out),
        "recommended": verdict.recommended,
        "settings": lines,
    }
    emit(facts, *heads, TextTable(("", "NOW", "BEST"), rows), _why(verdict), *lines, as_json=as_json)


def _why(verdict: TuningResult) -> str:
    if verdict.best == verdict.current:
        return "not recommended: nothing that was tried is better than the current settings"
    held_out = verdict.held_out
    reason = (
        f"on the last seven days {_share(held_out.share)} ({_share(held_out.low)} to {_share(held_out.high)} by days)"
    )
    if verdict.recommended:
        return f"recommended: saves {_share(verdict.searched.share)} of mean JCT before, {reason}"
    return f"not recommended: saves {_share(verdict.searched.share)} of mean JCT before, but {reason}"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _lines(site: TuningSite, verdict: TuningResult, settings: Settings) -> list[str]:
    """Return the lines of the settings file that differ from the current ones."""
    best, current = verdict.best, verdict.current
    wanted: dict[str, dict[str, str]] = {}

    def add_line(section: str, key: str, value: str) -> None:
        wanted.setdefault(section, {})[key] = value

    if best.profile_nodes:
        if not settings.power.profile:
            add_line("power", "profile", "true")
        add_line("profile", "n_max", str(best.profile_gpus))
        add_line("profile", "t_s", f"{best.profile_s:g}")
    elif current.profile_nodes:
        add_line("power", "profile", "false")
    if best.capacity != current.capacity:
        add_line("power", "share", "true" if best.capacity else "false")
        if best.capacity:
            add_line("share", "capacity", str(best.capacity))
            add_line("share", "memory_mib", f"{site.gpu_mib:g}")
    if best.ordering != current.ordering:
        add_line("policy", "ordering", f'"{best.ordering}"')
    lines = []
    for section, keys in wanted.items():
        lines += ["", f"[{section}]", *(f"{key} = {value}" for key, value in keys.items())]
    if best.profile_nodes != current.profile_nodes:
        nodes = count(best.profile_nodes, "node")
        lines += ["", f"and in slurm.conf {nodes} in partition {settings.profile.partition}"]
    return lines
