"""The set-up of a simulated run: a policy, the forecasts it gets, and how its plans are carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ..cluster.records.associations import AssociationTable
from ..decide.policy import Policy
from ..decide.rules import (
    AdmissionRules,
    Composition,
    LeaseRules,
    MigrationRules,
    ResizingRules,
    RightsizingRules,
    SteeringRules,
)
from ..decide.synthesis import AUTO, SynthesisRules, is_auto
from ..errors import ConfigError
from ..models.throughput import ThroughputModel
from ..policies.contract import PLACEMENTS, PREEMPTIONS, SCALINGS, SELECTIONS, SHARINGS, Ordering, find_ordering
from ..policies.preemption import Lease
from ..policies.presets import PRESETS, find_preset
from ..policies.resizing import find_size_division

EVERY_S = 30.0  #: interval of cycles by default
RESERVING = ("easy", "conservative")
EXACT = ("strict", "backfill", "preemptive", *RESERVING)
"""The selections with compiled event loops; with any other, decide() is called at each event."""

LEARNT = ("history", "model")  #: forecasts trained on runs: of the baseline, of the model trained daily
SLOWDOWNS = ("measured", "exact")
ESTIMATES = ("told", "site")  #: columns of a trace: what was estimated at submit, what a site's history gives
FORECASTS = ("exact", "limit", *ESTIMATES, *LEARNT)
EXECUTORS = ("direct", "slurm", "tasks")
TASK_PLACEMENTS = {"quasi-consolidate": 0, "calm": 1, "ideal": 2}
"""The placements of tasks: full servers first, those of them that stay below the threshold, each task by itself."""

BESIDE_SLURM = {
    "steer": "goes with executor slurm: elsewhere no job is kept off nodes",
    "resize": "goes with executor slurm: elsewhere scalings of jobs that train say how many GPUs each has",
    "resize_nodes": "goes with executor slurm: elsewhere scalings of jobs that train say on how many nodes each is",
    "rightsize": "goes with executor slurm: elsewhere jobs have the CPUs and the memory that they ask for",
}
"""The powers that need a slurmctld, and why."""

TASK_ROUND_S, TASK_RESTART_S = 60.0, 62.0
LOAD_CONTROLS = {"none": "never", "opt": "owner-rule", "acc": "owner-rule", "mlfs": "mlf-c"}
"""The stopping behind each load control, which reads what jobs would say with ``stop=`` and ``busy=``."""
ROUND_S = 300.0  #: the interval of decisions where ordering and admission are chosen, by default (Blox)
STOCK = "slurm"
"""The reference of every comparison: stock Slurm, multifactor priorities and backfill."""


@dataclass(frozen=True)
class Setup:
    """A policy composed of named parts; ConfigError for an unknown name."""

    ordering: Ordering
    selection: str  #: a name, with its parameters
    placement: str = "consolidate"
    slowdowns: str = "measured"  #: a placement that needs them knows: measured, from runs so far; exact, from the start
    forecast: str = "exact"  #: runtimes given to the ordering: the truth, the time limit, or trained (LEARNT)
    admission: float = np.inf  #: bound on GPUs of admitted jobs over all GPUs; others wait outside in turn
    restart_s: float = 0.0  #: cost of resuming a job of one GPU after a preemption
    restart_doubling_s: float = 0.0  #: additional cost for each doubling of its GPUs
    beat_s: float = 0.0  #: interval of decisions; 0 means at every event
    depth: int = 1000  #: waiting jobs that a reserving selection considers (Slurm's bf_max_job_test)
    executor: str = "direct"  #: direct: plans are carried out exactly; slurm: a model of slurmctld gets our writes;
    #: tasks: gangs of tasks in rounds
    sharing: str = ""  #: who shares GPUs with whom; where empty, ``indolent`` on a cluster that lets jobs share
    name: str = ""  #: label in comparisons; the ordering's where empty
    wide_hosts: bool = True  #: a job may share some of the GPUs of one that has more
    profile_nodes: int = 0  #: of the last nodes, the profiling partition: jobs that were not measured start there first
    profile_gpus: int = 8  #: most GPUs of a job that starts there
    profile_s: float = 100.0  #: time after which a job that saves its work makes room there for the next one
    preemption: str = "least-loss"  #: who yields beside slurmctld; only leases do without promises
    site: Policy | None = None  #: the whole policy of a site's settings
    writes_per_s: float = 20.0  #: updates to the modelled slurmctld, sustained
    writes_burst: int = 100  #: updates in one cycle at most
    throughput: ThroughputModel | None = None  #: the site's forecast of submissions; None for the rolling median
    slurm_config: Mapping[str, str] = field(default_factory=dict)  #: of the site's Slurm: ``scontrol show config``
    associations: AssociationTable | None = None  #: of that Slurm; None: fair share is among users with equal shares
    scaling: str = ""  #: the line of the scaling of jobs that train; other parts of the policy are unused then
    interference: float = 0.0  #: part of its speed that a job on several nodes loses where it shares one with another
    synthesis: SynthesisRules | None = None  #: ordering and admission are chosen anew every few rounds
    load_control: str = "none"  #: of tasks: when training ends early
    steer: bool = False  #: beside slurmctld: untyped jobs are sent to the type of GPU on which they end soonest
    resize: bool = False  #: beside slurmctld: jobs that can run on several numbers of GPUs get the best one for all
    division: str = "optimus"  #: of the GPUs that are free, with *resize*
    resize_nodes: bool = False  #: the same, and jobs on several nodes get more or fewer of them
    rightsize: bool = False  #: beside slurmctld: waiting jobs that need less CPUs and memory ask for less
    despite_limits: bool = False  #: the settings of a site size jobs although its Slurm has limits of CPUs and memory
    migrate: bool = False  #: tasks leave overloaded servers; beside slurmctld jobs leave overloaded nodes
    averaging: Literal["server", "ring"] = "server"  #: of replicas: by a parameter server, or round a ring

    def __post_init__(self) -> None:
        for part, fits, accepted in (
            ("admission", self.admission > 0, "a number above 0, as a share of all GPUs"),
            ("restart_s", 0 <= self.restart_s < np.inf, "seconds, 0 and more"),
            ("restart_doubling_s", 0 <= self.restart_doubling_s < np.inf, "seconds, 0 and more"),
            ("beat_s", 0 <= self.beat_s < np.inf, "seconds, 0 for every event"),
            ("depth", self.depth >= 1, "1 and more"),
            ("profile_nodes", self.profile_nodes >= 0, "nodes, 0 for none"),
            ("profile_gpus", self.profile_gpus >= 1, "1 and more"),
            ("interference", 0 <= self.interference < 1, "0 and more, below 1"),
            ("profile_s", 0 < self.profile_s < np.inf, "seconds, above 0"),
        ):
            if not fits:
                raise ConfigError(f"{part} {getattr(self, part)} makes no sense; accepted: {accepted}")
        find_size_division(self.division)
        if self.division != ResizingRules.division and not (self.resize or self.resize_nodes):
            raise ConfigError("division goes with resize: else each job has the GPUs that it asks for")

    @classmethod
    def of(cls, name: str, /, selection: str | None = None, **details: str | float) -> Setup:
        """Return the preset *name* with the given parts overridden."""
        if is_auto(name):
            return cls._synthesised(name, selection, details)
        if name == STOCK:
            details = {"executor": "slurm", "name": STOCK, **details}
        preset = find_preset(name.partition(" ")[0])
        ordering = find_ordering(preset.ordering if preset is not None and name in PRESETS else name)
        if name != ordering.line:
            details = {"name": name, **details}
        on_slurm = details.get("executor") == "slurm"
        if not on_slurm and (unfit := [f"{name} {why}" for name, why in BESIDE_SLURM.items() if details.get(name)]):
            raise ConfigError(unfit[0])
        own = ordering.selection or (preset.selection if preset else "backfill")
        if details.get("executor") == "tasks":
            return cls._of_tasks(ordering, selection or ("backfill" if ordering.native else own), details)
        of_tasks = {"load_control", "averaging"} | (set() if on_slurm else {"migrate"})
        if unfit := sorted(of_tasks & set(details)):
            where = "tasks or slurm" if unfit[0] == "migrate" else "tasks"
            raise ConfigError(f"{unfit[0]} goes with executor {where}: elsewhere jobs have no tasks")
        selection = selection or ("easy" if on_slurm else own)
        setup = replace(cls(ordering, selection), **details)  # type: ignore[arg-type]
        SELECTIONS.find(setup.selection)
        PLACEMENTS.knows(setup.placement)
        for part, accepted in (
            ("placement", PLACEMENTS.names),
            ("slowdowns", SLOWDOWNS),
            ("forecast", FORECASTS),
            ("executor", EXECUTORS),
        ):
            if getattr(setup, part) not in accepted:
                raise ConfigError(f"{part} {getattr(setup, part)!r} is not known; there are: {', '.join(accepted)}")
        if setup.sharing:
            SHARINGS.find(setup.sharing)
        if setup.executor == "slurm":
            setup.check_slurm()
        elif setup.leases is not None and not setup.ordering.native:
            return setup._leased(setup.leases)
        return setup

    @classmethod
    def _of_tasks(cls, ordering: Ordering, selection: str, details: Mapping[str, str | float]) -> Setup:
        """Return the set-up of gangs of tasks; whatever fits starts unless the ordering preempts."""
        defaults = {
            "placement": "quasi-consolidate",
            "forecast": "told",
            "beat_s": TASK_ROUND_S,
            "restart_s": TASK_RESTART_S,
        }
        if ordering.name == "mlfs-h":  # the paper's placement is that of jobs which run on once they have started
            defaults["placement"] = "calm" if selection == "preemptive" else "ideal"
        if unfit := sorted({"sharing", "admission", "depth", "restart_doubling_s"} & set(details)):
            raise ConfigError(f"{unfit[0]} does not go with executor tasks: gangs have whole GPUs, and all may start")
        setup = replace(cls(ordering, selection), **{**defaults, **details})  # type: ignore[arg-type]
        for part, accepted in (
            ("selection", ("backfill", "strict", "preemptive")),
            ("placement", tuple(TASK_PLACEMENTS)),
            ("forecast", ("exact", "limit", *ESTIMATES)),
            ("load_control", tuple(LOAD_CONTROLS)),
            ("averaging", ("server", "ring")),
        ):
            if getattr(setup, part) not in accepted:
                raise ConfigError(
                    f"{part} {getattr(setup, part)!r}: with executor tasks there are {', '.join(accepted)}"
                )
        if not setup.beat_s:
            raise ConfigError("beat_s 0: executor tasks plays rounds, of 60 s by default")
        return setup

    def _leased(self, lease: LeaseRules) -> Setup:
        """Return the set-up with the selection that does the same where plans happen as they are."""
        if self.selection not in ("preemptive", "backfill"):
            raise ConfigError(f"selection {self.selection!r} has no leases for the order: leave it out, or preemption")
        return replace(self, selection=f"preemptive lease_s={lease.lease_s:g}", beat_s=self.beat_s or EVERY_S)

    @classmethod
    def _synthesised(cls, line: str, selection: str | None, details: Mapping[str, str | float]) -> Setup:
        """Return the set-up whose ordering and admission are chosen as *line* says; a running job may yield to any."""
        rules = SynthesisRules.of(line)
        setup = cls.of(rules.orderings[0], selection or "preemptive", **{"name": line, **details})
        if setup.selection != "preemptive":
            raise ConfigError(f"{AUTO} lets running jobs yield: accepted is selection preemptive")
        for name in rules.orderings:
            if find_ordering(name).changes == "with_time":
                raise ConfigError(f"{AUTO}: {name}: accepted are orderings whose keys do not change with time alone")
        if np.isfinite(setup.admission):
            raise ConfigError(f"{AUTO} chooses the admission itself: its parameter loads=all,1.2 has the bounds")
        return replace(setup, synthesis=rules, beat_s=setup.beat_s or ROUND_S)

    def check_slurm(self) -> None:
        """Raise ConfigError for a part that Slurm cannot do."""
        if self.selection not in RESERVING:
            raise ConfigError(
                f"selection {self.selection!r} is not what slurmctld does; on it there are: {', '.join(RESERVING)}"
            )
        if self.placement != "consolidate":
            raise ConfigError("slurmctld places jobs by itself: executor slurm takes no placement")
        if self.profile_nodes:
            raise ConfigError("profile_nodes: on slurmctld [profile] of a site's settings says how (--config)")
        if self.sharing not in ("", "none"):
            raise ConfigError(
                f"sharing {self.sharing!r}: on slurmctld [share] of a site's settings says how (--config)"
            )

    @classmethod
    def of_site(cls, policy: Policy, every_s: float, name: str, **details: str | float) -> Setup:
        """Return the set-up of a daemon with this policy and *every_s* seconds between its cycles.

        Under the executor direct its pairs and its profiling decide at each event, and whatever fits starts.
        """
        parts = {"executor": "slurm", **details, "name": name}
        if parts["executor"] == "direct":
            return replace(cls(policy.ordering, "backfill"), site=policy, **parts)  # type: ignore[arg-type]
        return replace(cls(policy.ordering, "conservative", beat_s=every_s), site=policy, **parts)  # type: ignore[arg-type]

    @classmethod
    def training(cls, line: str, **details: str | float) -> Setup:
        """Return the set-up of jobs that train under the scaling *line*; ConfigError for an unknown one."""
        part = SCALINGS.find(line)
        if not details.get("beat_s"):
            raise ConfigError("beat_s 0: jobs that train are played in rounds, of 60 to 360 s by default")
        return replace(cls(find_ordering("unchanged"), "scaling"), **{"name": line, **details}, scaling=part.line)  # type: ignore[arg-type]

    @property
    def measures_slowdowns(self) -> bool:
        """True if the placement of jobs depends on what was measured of others before."""
        return PLACEMENTS.find(self.placement).measured and self.slowdowns == "measured"

    @property
    def places_by_jobs(self) -> bool:
        """True if the placement of a job depends on which other jobs run or wait."""
        return PLACEMENTS.find(self.placement).by_jobs

    @property
    def composition(self) -> Composition:
        """The parts other than the ordering, as decide() takes them."""
        selection, settings = self.selection, SELECTIONS.find(self.selection).settings
        if selection in RESERVING:
            selection = f"{selection} depth={self.depth}"
        elif {"restart_s", "restart_doubling_s"} <= set(settings):  # its plans include what a stop costs
            selection = f"{selection} restart_s={self.restart_s!r} restart_doubling_s={self.restart_doubling_s!r}"
        return Composition(selection, self.placement)

    @property
    def admits(self) -> AdmissionRules | None:
        """The rules of admission, as decide() takes them; None if every job is considered."""
        if not np.isfinite(self.admission):
            return None
        return AdmissionRules(f"load:{self.admission!r}", hold_s=2 * (self.beat_s or EVERY_S))

    @property
    def leases(self) -> LeaseRules | None:
        """The rules of leases, as decide() takes them; None if no running job yields to the order."""
        part = PREEMPTIONS.find(self.preemption)
        if not isinstance(part.function, Lease):
            return None
        return LeaseRules(
            part.line,
            part.function.lease_s,
            restart_s=self.restart_s,
            restart_doubling_s=self.restart_doubling_s,
        )

    @property
    def changes_jobs(self) -> bool:
        """True if a power beside slurmctld changes what jobs ask for."""
        return self.migrate or any(getattr(self, name) for name in BESIDE_SLURM)

    @property
    def steering(self) -> SteeringRules | None:
        """The rules of steering, None where no job is sent to a type of GPU."""
        return SteeringRules() if self.steer else None

    @property
    def resizing(self) -> ResizingRules | None:
        """The rules of numbers of GPUs; None where each job keeps its own."""
        if not (self.resize or self.resize_nodes):
            return None
        return ResizingRules(division=self.division, nodes=self.resize_nodes)

    @property
    def migration(self) -> MigrationRules | None:
        """The rules of overloaded nodes; None where no job leaves any."""
        return MigrationRules() if self.migrate else None

    @property
    def rightsizing(self) -> RightsizingRules | None:
        """The rules of CPUs and memory; None where each job has what it asks for."""
        return RightsizingRules() if self.rightsize else None

    @property
    def label(self) -> str:
        """The label in comparisons."""
        return self.name or self.ordering.line
