"""The replays of a comparison: which jobs run under which set-ups, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...cluster.text.plural import count
from ...decide.unshown_nodes import unshown_partitions
from ..app import App
from ..progress import bar
from .settings_in_force import assumed_in_force, meaning_in_force
from .simulate_options import SimulateOptions

if TYPE_CHECKING:
    from ...simulator.case import Case
    from ...simulator.cluster_spec import ClusterSpec
    from ...simulator.setup import Setup
    from ...simulator.sweep import CellResult
    from ...simulator.traces.trace import Trace
    from ...simulator.worker_pool import Workers
    from ..json_answers import JobLeftOut
    from .comparison import ComparisonRow


NAMED = 5
"""Jobs, types and features that are named in text."""

MANY = 0.1
"""The part of the jobs from which on the first line says that they are left out."""

PARTS = 1000
"""Parts of a run in a progress bar."""


@dataclass(frozen=True)
class Replays:
    """Set-ups on cases, ready to be replayed."""

    fleet: ClusterSpec
    setups: Sequence[Setup]
    cases: Sequence[Case]
    left_out: Sequence[list[JobLeftOut]]  #: of each case
    assumed: Sequence[str]  #: what one must know first: who is left out, and what a replay of the settings assumes
    meanings: Sequence[str]  #: of each set-up
    notes: Sequence[str]  #: on the modelled Slurm
    workers: Workers | None

    @classmethod
    def of(cls, app: App, chosen: SimulateOptions) -> Replays:
        """Read the jobs and the set-ups that the options name."""
        with bar("reading the history" if chosen.from_db_s is not None else "reading the options"):
            fleet, workers = chosen.fleet(app), chosen.who()
            setups, notes = _beside_their_slurm(app, chosen, chosen.setups(app))
            fleet = _with_own_qos(app, chosen, fleet)
            read = chosen.cases(app, fleet)
        read, assumed = _without_what_is_not_described(read, fleet)
        assumed = [*unshown_partitions(fleet.partitions, fleet.nodes), *assumed]
        cases, left_out = _that_fit(read, fleet, [] if chosen.strict else setups)
        assumed += _too_many_left_out(cases, left_out)
        meanings: list[str] = []
        if chosen.asks_for_settings:
            config = chosen.slurm_config(app)
            known = chosen.associations(app)
            assumed += assumed_in_force(app, setups, config, known, cases[0].trace())
            meanings = [meaning_in_force(setup, config, fleet.qos) for setup in setups]
        return cls(fleet, setups, cases, left_out, assumed, meanings, notes, workers)

    @property
    def first_notes(self) -> list[str]:
        """Who is left out, what a replay of the settings in force assumes, and what its rows are."""
        rows = zip(self.setups, self.meanings, strict=True) if self.meanings else ()
        return [*self.assumed, *(f"{setup.label}: {text}" for setup, text in rows if text)]

    def rows(
        self, whole: Callable[[Sequence[CellResult]], None] = lambda runs: None, *, check: bool = False
    ) -> list[ComparisonRow]:
        """Replay all and return a row for each; *whole* gets the runs of each case together."""
        from ...simulator.sweep import Cell, sweep
        from .comparison import compared

        cells = [Cell(case, setup) for case in self.cases for setup in self.setups]
        runs = _watched(sweep(cells, self.fleet, self.workers, check=check), len(cells))
        return compared(cells, runs, whole)


def _beside_their_slurm(app: App, chosen: SimulateOptions, setups: Sequence[Setup]) -> tuple[list[Setup], list[str]]:
    """Return *setups*, those of a site with the scheduling of the Slurm whose history is replayed, and notes."""
    sites = [setup for setup in setups if setup.site is not None and setup.executor == "slurm"]
    if not sites or chosen.from_db_s is None:
        return list(setups), _notes_on_limits(setups)
    from ...simulator.simulated_cluster import DEFAULT_CONFIG

    config = chosen.slurm_config(app)
    beside = [setup.executor == "slurm" and setup.selection == "conservative" for setup in setups]
    played = config or (DEFAULT_CONFIG if chosen.asks_for_settings else {})
    known = chosen.associations(app)
    made = [
        replace(one, slurm_config=played, associations=known) if models else one
        for one, models in zip(setups, beside, strict=True)
    ]
    scheduling = "SchedulerParameters and priorities are those of its slurmctld"
    defaults = "its slurmctld does not answer: SchedulerParameters and priorities are Slurm's defaults"
    notes = [f"{', '.join(setup.label for setup in sites)}: {scheduling if config else defaults}"]
    return [_within_limits(setup) for setup in made], notes + _notes_on_limits(made)


def _with_own_qos(app: App, chosen: SimulateOptions, fleet: ClusterSpec) -> ClusterSpec:
    """Return *fleet* with the QOS of the Slurm whose history is replayed, where it has none and Slurm answers."""
    if not chosen.asks_for_settings or len(fleet.qos) or not chosen.slurm_config(app):
        return fleet
    return replace(fleet, qos=app.cluster().observe().qos)


def _within_limits(setup: Setup) -> Setup:
    """Return the set-up of a site without right-sizing where its daemon leaves that out."""
    if setup.site is None or not _limited(setup):
        return setup
    return replace(setup, site=replace(setup.site, rules=replace(setup.site.rules, rightsizing=None)))


def _limited(setup: Setup) -> bool:
    """Return True if the Slurm of a set-up is known to have limits that a sized job would escape."""
    from ...slurm.port import holds_to_limits

    return holds_to_limits(setup.slurm_config) and not setup.despite_limits


def _notes_on_limits(setups: Sequence[Setup]) -> list[str]:
    """Return notes on sites with right-sizing: whether it is played although Slurm may have limits."""
    sized = [one for one in setups if one.site is not None and one.site.rules.rightsizing and not one.despite_limits]
    without = [one.label for one in sized if _limited(one)]
    unknown = [one.label for one in sized if not one.slurm_config and one.executor == "slurm"]
    notes = (
        (without, "no job is sized, since AccountingStorageEnforce has limits (rightsize.despite_limits)"),
        (unknown, "jobs are sized; on a Slurm whose AccountingStorageEnforce has limits the daemon sizes none"),
    )
    return [f"{', '.join(names)}: {text}" for names, text in notes if names]


def _that_fit(
    cases: Sequence[Case], fleet: ClusterSpec, setups: Sequence[Setup]
) -> tuple[list[Case], list[list[JobLeftOut]]]:
    """Return *cases* without the jobs that could never run under one of *setups*, and those jobs."""
    from ...simulator.unfit_jobs import unfit

    fitting: list[Case] = []
    left_out: list[list[JobLeftOut]] = []
    for case in cases:
        jobs = _read(case).workload
        unfit_jobs = unfit(jobs, fleet, setups) if setups else []
        fitting.append(replace(case, left_out=tuple(misfit.row for misfit in unfit_jobs)))
        left_out.append([{"job_id": int(jobs.job_id[one.row]), "why": one.why} for one in unfit_jobs])
    return fitting, left_out


def _without_what_is_not_described(cases: Sequence[Case], fleet: ClusterSpec) -> tuple[list[Case], list[str]]:
    """Return *cases* with jobs that run on any node where the cluster has no types or features at all, and say so."""
    described = {
        "gpu_type": any(fleet.nodes.gpu_type) or any(fleet.nodes.gpu_types),
        "features": any(fleet.nodes.features),
    }
    plain: list[Case] = []
    notes: list[str] = []
    for case in cases:
        jobs = _read(case).workload
        asked = {name: sorted({*getattr(jobs, name)} - {""}) for name, known in described.items() if not known}
        ignored = tuple(name for name, texts in asked.items() if texts)
        plain.append(replace(case, ignored=ignored))
        for name in ignored:
            texts = asked[name]
            listed = ", ".join(texts[:NAMED]) + (f" and {len(texts) - NAMED} more" if len(texts) > NAMED else "")
            kind = "type of GPUs" if name == "gpu_type" else "feature"
            notes.append(f"{case.source.name}: jobs that ask for a {kind} ({listed}) run on any node: {_HINTS[name]}")
    return plain, list(dict.fromkeys(notes))


_HINTS = {
    "gpu_type": "the cluster names no types (--gpus TYPE=NODESxGPUS,...)",
    "features": "the cluster names no features (--cluster FILE)",
}


def _too_many_left_out(cases: Sequence[Case], left_out: Sequence[list[JobLeftOut]]) -> list[str]:
    """Say which cases are replayed without a tenth of their jobs or more."""
    notes: list[str] = []
    for case, out in zip(cases, left_out, strict=True):
        jobs = replace(case, left_out=()).trace().workload
        if not out or len(out) < MANY * len(jobs):
            continue
        notes.append(f"{case.source.name}: {len(out)} of {len(jobs)} jobs could never run there and are left out")
    return list(dict.fromkeys(notes))


def _read(case: Case) -> Trace:
    """Read the jobs of *case*, with a progress bar."""
    from ...simulator.traces.file import PROGRESS

    with bar(f"reading {case.source.name}") as progress:
        watched = PROGRESS.set(progress)
        trace = case.trace()
        PROGRESS.reset(watched)
    return trace


def _watched(runs: Iterator[tuple[int, CellResult]], total: int) -> Iterator[tuple[int, CellResult]]:
    """Yield the runs unchanged, with a progress bar; it moves within a run that this process makes."""
    from ...simulator.replay_progress import PROGRESS

    with bar(count(total, "run")) as progress:
        done = 0
        progress(0, PARTS * total)
        within = PROGRESS.set(lambda part, whole: progress(PARTS * done + PARTS * part // max(1, whole), PARTS * total))
        try:
            for run in runs:
                done += 1
                progress(PARTS * done, PARTS * total)
                yield run
        finally:
            PROGRESS.reset(within)
