"""The options of ``slurmsched simulate``, converted to nodes, jobs and policies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import ConfigError, SlurmError
from ..app import App
from ..failure import NotFound, wrong_usage
from .settings_in_force import associations_of, setups_in_force, site_setup
from .simulate_keys import set_values, trace_values

if TYPE_CHECKING:
    from ...cluster.records.associations import AssociationTable
    from ...simulator.case import Case
    from ...simulator.cluster_spec import ClusterSpec
    from ...simulator.setup import Setup
    from ...simulator.speeds.speed_files import SpeedFiles
    from ...simulator.traces.source import Source
    from ...simulator.worker_pool import Workers

DEFAULT_POLICIES = ("fifo", "sjf", "qssf", "srtf")
DEFAULT_SCALINGS = {
    "applications": ("fifo", "tiresias", "optimus", "pollux"),
    "throughputs": ("gavel-las-blind", "gavel-las", "gavel-ftf"),
    "profiles": ("fifo synergy=proportional", "fifo synergy=greedy", "fifo synergy=tune"),
}
"""Scalings compared unless others are named, by the option that says how fast jobs train."""

PROFILING = ("profile_nodes", "profile_gpus", "profile_s")
"""The keys about jobs that are measured first."""

WorkersGiven = tuple[str | None, int | None, str | None]
"""What ``WorkersType`` reads: the kind of workers, their number, and the address of a Dask cluster."""

POWERS = ("migrate", "steer", "resize", "resize_nodes", "rightsize")
"""The keys that switch on a power."""


@dataclass(frozen=True)
class SimulateOptions:
    """The options as given; None and empty where they were not."""

    traces: tuple[str, ...] = ()
    from_db_s: float | None = None
    cluster_name: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    pools: dict[str, int] | None = None
    cluster_file: str | None = None
    policies: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    ckpt: float | None = None
    elastic: float | None = None
    lean: float | None = None
    baseline: bool = True
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Keys of all policies (``policy_keys``), with ``executor`` and ``forecast``."""
    taken: str | None = None
    stops: str | None = None
    measure: str | None = None
    until_measured: bool = False
    train: str | None = None
    loads: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    habits: bool = False
    form: str | None = None
    cpu_jobs: bool = False
    applications: str | None = None
    throughputs: str | None = None
    profiles: str | None = None
    mapping: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    workers: WorkersGiven | None = None

    @classmethod
    def of(
        cls,
        *,
        history: tuple[float, str | None] | None,
        nodes: tuple[int, int | None] | None,
        pools: tuple[dict[str, int], int | None] | None,
        policies: tuple[str, ...],
        traces: tuple[str, ...],
        workers: WorkersGiven | None,
        assignments: tuple[str, ...],
        executor: str | None = None,
        forecast: str | None = None,
        **options: Any,
    ) -> SimulateOptions:
        """Return the options of the command, with the keys of trace files over those of ``--set``."""
        span_s, cluster_name = history or (None, None)
        count, gpus_per_node = nodes or (None, None)
        numbers, each = pools or (None, None)
        with wrong_usage():
            files, keys = opened(traces)
        parts, fields = set_values(assignments)
        own = {"executor": executor, "forecast": forecast}
        return cls(
            traces=files,
            from_db_s=span_s,
            cluster_name=cluster_name,
            nodes=count,
            gpus_per_node=gpus_per_node or each,
            pools=numbers,
            policies=tuple(policy for policy in policies if not policy.endswith(".toml")),
            policy_files=tuple(policy for policy in policies if policy.endswith(".toml")),
            workers=workers,
            parts=parts | {name: value for name, value in own.items() if value is not None},
            **options | fields | keys,
        )

    def fleet(self, app: App) -> ClusterSpec:
        """Return the nodes: those of Slurm for a site's history, if none are given; a usage error unless given once."""
        from ...simulator.cluster_file import read_cluster
        from ...simulator.cluster_spec import ClusterSpec

        if self.pools is not None:
            if {self.nodes, self.cluster_file} != {None}:
                raise click.UsageError("--gpus goes without --nodes and --cluster: it has all GPUs.")
            if any(count % (self.gpus_per_node or 1) for count in self.pools.values()):
                raise click.UsageError(f"--gpus has GPUs of whole nodes, of {self.gpus_per_node} each.")
            return ClusterSpec.of_types(self.pools, self.gpus_per_node)
        if self._on_slurms_nodes:
            return ClusterSpec.all_up(app.cluster().observe())
        if (self.nodes is None) == (self.cluster_file is None):
            raise click.UsageError("Say --nodes N or --cluster FILE, one of them.")
        if self.nodes is not None:
            return ClusterSpec.of(self.nodes, self.gpus_per_node or 8)
        assert self.cluster_file is not None
        return read_cluster(self.cluster_file)

    @property
    def _on_slurms_nodes(self) -> bool:
        """True if a site's history is replayed on the nodes of its own Slurm."""
        given = (self.nodes, self.cluster_file, self.gpus_per_node, self.pools)
        return self.from_db_s is not None and all(one is None for one in given)

    def cases(self, app: App, fleet: ClusterSpec) -> list[Case]:
        """Return every trace with every seed at every load."""
        from ...simulator.case import Case

        if self.until_measured and self.measure is None:
            raise click.UsageError("until_measured goes with measure=A:B, the jobs that it waits for.")
        sources, mapping = list(self._sources(app, fleet)), self._mapping(fleet)
        drawn = any(share is not None and 0 < share < 1 for share in (self.ckpt, self.elastic, self.lean))
        if self.seeds and not drawn and all(source.seed is None for source in sources):
            raise click.UsageError(
                "--seed changes nothing here: nothing of these traces is made up. Accepted with synthetic:JOBS, with a"
                " workload in a TOML file, with the key habits, and with a FRACTION of ckpt, elastic or lean."
            )
        figures = self.measure, self.until_measured, self.speeds()
        ranges = partial(replace, elastic=self.elastic, lean=self.lean)
        return [
            ranges(Case(source, seed, load, self.taken, self.train, mapping, self.ckpt, self.stops, *figures))
            for source in sources
            for seed in ((self.seeds or (source.seed,)) if source.seed is not None or drawn else (None,))
            for load in self.loads or (1.0,)
        ]

    def _mapping(self, fleet: ClusterSpec) -> tuple[tuple[str, str], ...]:
        if self.mapping and not len(fleet.partitions):
            raise click.UsageError("map_partitions goes with a --cluster FILE that has [[partitions]].")
        every = ",".join(fleet.partitions.name)
        return tuple((name, target or every) for name, target in self.mapping)

    def speeds(self) -> SpeedFiles | None:
        """Return the files that say how fast jobs train; None where runtimes are in the trace."""
        from ...simulator.speeds.speed_files import SpeedFiles

        given = {name: path for name in DEFAULT_SCALINGS if (path := getattr(self, name)) is not None}
        if not given:
            return None
        if len(given) > 1:
            raise click.UsageError(f"Say one of {' and '.join(given)}: jobs train in one way.")
        if self.until_measured:
            raise click.UsageError(f"until_measured does not go with {min(given)}: jobs train to their end.")
        return SpeedFiles(**given)

    @property
    def asks_for_settings(self) -> bool:
        """True if a site's history is replayed under its own settings: no option composes another policy."""
        others = (*self.presets, *self.policy_files, *self.configs, self.train, self.speeds())
        given = (*others, *self.parts.values())
        return self.from_db_s is not None and not any(one is not None and one is not False for one in given)

    def setups(self, app: App) -> list[Setup]:
        """Return the policies, the model of stock Slurm first."""
        if self.asks_for_settings:
            with wrong_usage():
                return setups_in_force(app, self.policies, baseline=self.baseline)
        speeds = self.speeds()
        if speeds is not None and not (speeds.throughputs and self.parts.get("executor") == "slurm"):
            return self._training(speeds)
        if "interference" in self.parts:
            raise click.UsageError("interference goes with applications: it slows jobs that train.")
        from ...simulator.policy_file import read_policy
        from ...simulator.research_parts import task_replay
        from ...simulator.setup import LEARNT, STOCK, Setup

        with wrong_usage():
            parts = self._parts()
        others = self.policy_files or self.presets or self.configs
        names = self.policies or (() if others else DEFAULT_POLICIES)
        with wrong_usage():
            setups = [Setup.of(name, **parts) for name in names]
            setups += [self._preset(name, parts) for name in self.presets]
        setups += [read_policy(path, **parts) for path in self.policy_files]
        setups += [self._site(path, parts) for path in self.configs]
        if any(setup.executor == "tasks" for setup in setups):
            task_replay()  # before the others are replayed: it may not be installed
        if self.baseline:
            stock = [setup for setup in setups if setup.label == STOCK] or [Setup.of(STOCK)]
            setups = stock + [setup for setup in setups if setup.label != STOCK]
        if self.train is not None and all(setup.forecast not in LEARNT for setup in setups):
            raise click.UsageError("train goes with --forecast history or model: nothing else is learnt.")
        return setups

    def slurm_config(self, app: App) -> Mapping[str, str]:
        """Return the configuration of the Slurm whose history is replayed; empty where it does not answer."""
        if self.from_db_s is None:
            return {}
        try:
            facts = app.cluster().facts()
        except SlurmError:
            return {}
        return facts.config if facts.cluster == self._replayed_cluster(app) else {}

    def associations(self, app: App) -> AssociationTable:
        """Return the accounts of the Slurm whose history is replayed; none where it does not answer."""
        from ...cluster.records.associations import NO_ASSOCIATIONS

        return associations_of(app) if self.slurm_config(app) else NO_ASSOCIATIONS

    def who(self) -> Workers | None:
        """Return the workers that make the runs; None for this process."""
        if self.workers is not None and self.workers[2] and self.from_db_s is not None:
            raise click.UsageError("--from-db replays on this machine: other machines cannot read what it holds.")
        return workers_of(self.workers)

    def _preset(self, name: str, parts: dict[str, Any]) -> Setup:
        """Return the composition under *name*; an option overrides its part of it."""
        from ...policies.admission import load_of
        from ...policies.presets import preset_of
        from ...simulator.setup import Setup

        preset = preset_of(name)
        own = {"placement": preset.placement, "admission": load_of(preset.admission)}
        own |= {"sharing": preset.sharing, "name": name}
        return Setup.of(preset.ordering, **{"selection": preset.selection, **own, **parts})

    def _site(self, path: str, parts: dict[str, Any]) -> Setup:
        """Return the set-up of a daemon with the settings in *path*, acting."""
        from ...config import load

        if unfit := set(parts) & {"selection", "placement", "sharing", "wide_hosts", "admission", "depth", *PROFILING}:
            raise click.UsageError(f"{min(unfit)} does not go with --config: on Slurm the jobs are started by Slurm.")
        if unfit := set(parts) & set(POWERS):
            raise click.UsageError(f"{min(unfit)} does not go with --config: its [power] says what is on.")
        if "division" in parts:
            raise click.UsageError("division does not go with --config: its [resize] says who gets GPUs.")
        settings = load(path, {}).settings
        return site_setup(settings, Path(path).stem, parts)

    def _training(self, speeds: SpeedFiles) -> list[Setup]:
        """Return the scalings of jobs that train."""
        from ...simulator.setup import Setup

        with wrong_usage():
            parts = self._parts()
            if unfit := set(parts) - {"restart_s", "beat_s", "interference"}:
                raise click.UsageError(f"{min(unfit)} does not go with {speeds.kind}: a scaling decides it all.")
            if self.policy_files or self.presets or self.configs:
                raise click.UsageError(f"{speeds.kind} goes with --policy and the name of a scaling alone.")
            parts = speeds.defaults | parts
            return [Setup.training(line, **parts) for line in self.policies or DEFAULT_SCALINGS[speeds.kind]]

    def _parts(self) -> dict[str, Any]:
        """Return the keys of all policies; those that switch a power off count as none."""
        from ...policies.admission import load_of

        parts = {name: value for name, value in self.parts.items() if name not in POWERS or value}
        return parts | {"admission": load_of(parts["admission"])} if "admission" in parts else parts

    def _sources(self, app: App, fleet: ClusterSpec) -> Iterator[Source]:
        from ...simulator.traces.source import Source
        from ...simulator.workload.synthetic_users import SyntheticUsers

        if bool(self.traces) == (self.from_db_s is not None):
            raise click.UsageError("Say TRACE or --from-db SPAN, one of them.")
        if self.from_db_s is not None:
            if self.habits or self.form:
                raise click.UsageError("habits and format go with a TRACE: the database has users and one form.")
            yield self._history(app, self.from_db_s, fleet)
        habits = SyntheticUsers() if self.habits else None
        for trace in self.traces:
            with wrong_usage():
                source = Source.of(trace, fleet.total, format=self.form, cpu_jobs=self.cpu_jobs, habits=habits)
            yield source

    def _history(self, app: App, span_s: float, fleet: ClusterSpec) -> Source:
        """Return the site's own database, copied to a file for worker processes until the command ends."""
        from ...simulator.traces.database import from_store
        from ...simulator.traces.partitions import where_known
        from ...simulator.traces.source import Source

        name = self._replayed_cluster(app)
        trace = from_store(app.store(), name, app.clock.now() - span_s, cpu_jobs=self.cpu_jobs)
        if self._on_slurms_nodes:
            trace = where_known(trace, list(fleet.partitions.name))
        directory = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="slurmsched-"))
        return Source.copy(f"history of {name}", trace, str(Path(directory, "history.csv")))

    def _replayed_cluster(self, app: App) -> str:
        """Return the name of the cluster whose history is replayed."""
        clusters, name = app.store().clusters(), self.cluster_name
        if not clusters:
            raise NotFound("the database holds no runs; try: slurmsched history import")
        if name is not None and name not in clusters:
            raise NotFound(f"the database holds no runs of cluster {name}; there are: {', '.join(clusters)}")
        if name is None and len(clusters) > 1:
            raise click.UsageError(
                f"The database knows several clusters; say --from-db SPAN@NAME with one of {', '.join(clusters)}."
            )
        return name or clusters[0]


def workers_of(given: WorkersGiven | None) -> Workers | None:
    """Return the workers that ``--workers`` names; None for this process."""
    from ...simulator.worker_pool import Workers

    backend, number, address = given or (None, None, None)
    return None if backend is None and number in (None, 1) else Workers(backend or "loky", number, address or "")


def opened(traces: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return *traces* with the files that ``[trace]`` of TOML files names, and the keys there; ConfigError for others.

    They hold for all traces: where two files say different ones, they are replayed one by one.
    """
    files: list[str] = []
    keys: dict[str, Any] | None = None
    for trace in traces:
        table = trace_table(trace)
        here = {} if table is None else trace_values(trace, table)
        if keys is not None and keys != here:
            raise ConfigError(f"{trace} says other keys of [trace] than {traces[0]}: replay them one by one")
        files.append(trace if table is None else str(Path(trace).parent / table["file"]))
        keys = here
    return tuple(files), keys or {}


def trace_table(trace: str) -> dict[str, Any] | None:
    """Return the ``[trace]`` of a TOML file; None for a file of jobs, and for one that describes a workload."""
    from ...simulator.toml_file import read_toml

    if not trace.endswith(".toml"):
        return None
    document = read_toml(trace, dict.fromkeys(("trace", "workload", "gpu_mix", "habits"), dict))
    if "trace" not in document:
        return None
    if len(document) > 1 or not isinstance(document["trace"].get("file"), str):
        raise ConfigError(f"{trace}: [trace] stands alone, with the name of a file of jobs: file = 'jobs.csv'")
    return dict(document["trace"])
