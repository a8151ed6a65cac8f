"""``slurmsched tune``."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from ...cli.app import App
from ...cli.output import Cell, TextTable, emit, table_options
from ...cli.progress import bar
from ...cli.study.option_types import HistoryType, NodesType, ShareType, WorkersType
from ...cli.study.simulate_keys import KeyedCommand, gone
from ...cli.study.simulate_options import SimulateOptions
from ...cluster.text.plural import count

if TYPE_CHECKING:
    from ...config import Settings
    from ...simulator.workload.workload import Workload
    from ..tuning.knobs import Knobs
    from ..tuning.search import TuningResult
    from ..tuning.trial import TuningSite
    from .answers import Tuned

FILE = click.Path(exists=True, dir_okay=False)
MONTH_S = 30 * 86400.0


@click.command(cls=KeyedCommand, gone=gone("--cluster-name", "--gpus-per-node"))
@click.option("--trace", metavar="TRACE", help="A file of jobs, or synthetic:JOBS[:LOAD], not the database.")
@click.option(
    "--from-db",
    "history",
    type=HistoryType(),
    metavar="SPAN[@CLUSTER]",
    help="How much history, of a CLUSTER.  [default: 30d]",
)
@click.option("--nodes", type=NodesType(), metavar="N[xGPUS]", help="Number of nodes, with GPUs of each if not 8.")
@click.option("--cluster", "cluster_file", type=FILE, help="A TOML file of nodes, partitions and QOS, not --nodes.")
@click.option("--ordering", help="The order of the queue.  [default: policy.ordering]")
@click.option(
    "--profile-nodes", type=click.IntRange(0), default=0, help="Nodes of the profiling partition now.  [default: 0]"
)
@click.option(
    "--share-nodes", type=click.IntRange(0), default=0, help="Nodes of the sharing partition now.  [default: 0]"
)
@click.option(
    "--ckpt", type=ShareType(), metavar="all|none|FRACTION", help="Jobs that save their work and may be requeued."
)
@click.option(
    "--gpu-memory", type=click.FloatRange(0), help="MiB that two jobs may use together.  [default: share.memory_mib]"
)
@click.option("--evaluations", type=click.IntRange(2), default=30, help="Number of settings to try.  [default: 30]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the search and of the noise.  [default: 0]")
@click.option("--workers", type=WorkersType(), metavar="N|all|dask|ADDRESS", help="Processes.  [default: 1]")
@table_options
@click.pass_obj
def tune(app: App, /, as_json: bool, **options: Any) -> None:
    """Search for better settings by simulating the site's own last month.

    Each trial runs the daemon's own cycles, under the site's settings and those tried, beside a modelled slurmctld.
    Tries limits and width of profiling, nodes for it, degrees of GPU sharing, and the parameters of the ordering. The
    last seven days take no part in the search: the best settings found are recommended only where they are better on
    these days too, by more than the variation between days. Changes nothing.
    """
    from ..tuning.knobs import KnobSpace
    from ..tuning.search import tuned

    if options["trace"] and options["history"] is not None:
        raise click.UsageError("--trace and --from-db exclude each other: jobs come from one of them.")
    settings = app.settings()
    if options["gpu_memory"] is not None:
        settings = replace(settings, share=replace(settings.share, memory_mib=options["gpu_memory"]))
    given = _simulate_options(options)
    site = _site(app, settings, options, given)
    current = _current(settings, options, sharing=site.sharing)
    fleet = site.fleet
    _check_nodes(site, options)
    space = KnobSpace.of(
        current,
        nodes=len(fleet.nodes) - site.share_nodes,
        gpus=fleet.size,
        profiling=site.plain,
        sharing=site.sharing,
        widest=int(site.jobs.gpus.max()),
    )
    with bar("simulations") as advance:
        verdict = tuned(
            site,
            current,
            space,
            **{name: options[name] for name in ("evaluations", "seed")},
            workers=given.who(),
            progress=advance,
        )
    _print_verdict(site, verdict, app.settings(), as_json=as_json)


def _check_nodes(site: TuningSite, options: dict[str, Any]) -> None:
    """Raise a usage error where the nodes for profiling and sharing cannot be taken from the cluster."""
    taken, there = options["profile_nodes"] + options["share_nodes"], len(site.fleet.nodes)
    for name in ("profile_nodes", "share_nodes"):
        option = "--" + name.replace("_", "-")
        if options[name] and not site.plain:
            raise click.UsageError(f"{option} needs nodes of one size without partitions of their own.")
        if options[name] and taken >= there:
            raise click.UsageError(f"{option} takes some of the {there} nodes, and leaves at least one.")


def _current(settings: Settings, options: dict[str, Any], *, sharing: bool) -> Knobs:
    from ...daemon.policy_settings import ordering_of
    from ..tuning.knobs import Knobs

    return Knobs(
        settings.profile.t_s,
        settings.profile.n_max,
        options["profile_nodes"],
        settings.share.capacity if settings.power.share and sharing else 0,
        ordering_of(settings, options["ordering"]).line,
    )


def _site(app: App, settings: Settings, options: dict[str, Any], given: SimulateOptions) -> TuningSite:
    """Return the jobs with all known data about them."""
    from ...daemon.policy_settings import policy_of
    from ...simulator.trace_forecasts import learnt
    from ..tuning.trial import TuningSite

    fleet = given.fleet(app)
    case = given.cases(app, fleet)[0]
    jobs = case.trace().workload
    if options["trace"] is None:
        jobs = _measured(app, jobs, given.cluster_name)
    return TuningSite(jobs, learnt(jobs), fleet, settings, policy_of, options["share_nodes"])


def _simulate_options(options: dict[str, Any]) -> SimulateOptions:
    """Return the options for nodes and jobs in the form of ``simulate``."""
    trace, ckpt = options["trace"], options["ckpt"]
    return SimulateOptions.of(
        history=None if trace else options["history"] or (MONTH_S, None),
        nodes=options["nodes"],
        pools=None,
        policies=(),
        traces=(trace,) if trace else (),
        workers=options["workers"],
        assignments=(),
        cluster_file=options["cluster_file"],
        ckpt=ckpt,
        seeds=(options["seed"],) if _drawn(ckpt) else (),
    )


def _drawn(share: float | None) -> bool:
    """Return True if a *share* of the jobs is drawn by chance."""
    return share is not None and 0 < share < 1


def _measured(app: App, jobs: Workload, cluster_name: str | None) -> Workload:
    """Return the jobs with the nodes' measurements."""
    from ..tuning.trial import with_use

    store = app.store()
    name = cluster_name or store.clusters()[0]
    return with_use(jobs, ((run[0], use) for run, _, use in store.measured(name, float(jobs.submit_s.min()))))


def _print_verdict(site: TuningSite, verdict: TuningResult, settings: Settings, *, as_json: bool) -> None:
    jobs, measured = len(site.jobs), int((site.jobs.gpu_util == site.jobs.gpu_util).sum())
    heads = [f"{count(jobs, 'job')}, {measured:,} measured; {count(verdict.trials, 'simulation')}"]
    if not site.sharing:
        heads.append(
            "sharing was not tried: it needs measured jobs, --gpu-memory or share.memory_mib, and nodes for it:"
            " --share-nodes, or [sharing] partition in the file of --cluster"
        )
    if not site.plain:
        heads.append("a profiling partition was not tried: it takes nodes of one size without partitions of their own")
    both = (verdict.current.by_setting, verdict.best.by_setting)
    rows: list[list[Cell]] = [[name, both[0][name], both[1][name]] for name in both[0]]
    rows += [
        [f"mean JCT {name}, s", float(f"{gain.current_s:.5g}"), float(f"{gain.tuned_s:.5g}")]
        for name, gain in (("searched", verdict.searched), ("held out", verdict.held_out))
    ]
    lines = _lines(site, verdict, settings) if verdict.recommended else []
    facts: Tuned = {
        "jobs": jobs,
        "measured": measured,
        "simulations": verdict.trials,
        "current": both[0],
        "best": both[1],
        "searched": verdict.searched,
        "held_out": verdict.held_out,
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
    """Return the lines of the settings file that differ from the present *settings*."""
    best = verdict.best.applied(site.settings)
    lines = []
    tried = {"power": True, "policy": True, "profile": best.power.profile, "share": best.power.share}
    for section in filter(tried.get, tried):
        was, wanted = asdict(getattr(settings, section)), asdict(getattr(best, section))
        if changed := {key: value for key, value in wanted.items() if value != was[key]}:
            lines += ["", f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in changed.items())]
    if verdict.best.profile_nodes != verdict.current.profile_nodes:
        nodes = count(verdict.best.profile_nodes, "node")
        lines += ["", f"and in slurm.conf {nodes} in partition {settings.profile.partition}"]
    return lines


def _toml(value: float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
