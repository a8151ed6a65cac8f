"""One policy on one trace: from names to a replay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels, table_of
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable, job_table
from ..cluster.nodes import NodeTable, PartitionTable, QosTable
from ..cluster.state import View
from ..errors import ConfigError
from ..policies.hooks import Ordering, find_ordering
from ..policies.placement import PLACEMENTS
from .cluster import SimulatedCluster
from .fleet import Fleet
from .generic import Books, replay
from .grants import Site
from .loops import Keys, Result, Trace, run_preemptively, run_to_end
from .reserving import CONSERVATIVE, EASY, run_reserving
from .slurmconf import SlurmConf
from .steering import EVERY_S, Steering, whole_queue
from .told import Told
from .waiting import nobody
from .workload import Workload

SELECTIONS = ("strict", "backfill", "easy", "conservative", "preemptive")
RESERVING = {"easy": EASY, "conservative": CONSERVATIVE}
FORECASTS = ("exact", "limit", "history")
PRESETS = {
    "fifo": "strict",
    "sjf": "backfill",
    "qssf": "backfill",
    "srtf": "preemptive",
    "srsf": "preemptive",
    "las": "preemptive",
    "tiresias": "preemptive",
    "slurm": "easy",
}
"""The selection that belongs to each ordering; others take backfill."""

EXECUTORS = ("direct", "slurm")
STOCK = "slurm"
"""The preset that every comparison is against: stock Slurm, multifactor priorities and backfill."""


@dataclass(frozen=True)
class Setup:
    """A policy, put together from names; ConfigError where a name is not known."""

    ordering: Ordering
    selection: str
    placement: str = "consolidate"
    forecast: str = "exact"  #: what the ordering knows of runtimes: the truth, the time limit, or learnt from history
    admission: float = np.inf  #: GPUs that admitted jobs ask for, over all GPUs, at most; others wait outside in turn
    restart_s: float = 0.0  #: what going on after a preemption costs a job of one GPU
    restart_doubling_s: float = 0.0  #: and so much more for each doubling of its GPUs
    beat_s: float = 0.0  #: decisions every so many seconds; 0 means at every event
    depth: int = 1000  #: how many waiting jobs a reserving selection looks at (Slurm's bf_max_job_test)
    executor: str = "direct"  #: direct: the plan happens as it is; slurm: a model of slurmctld sees our writes
    name: str = ""  #: what a comparison calls it; the ordering's name where empty

    @classmethod
    def of(cls, name: str, selection: str | None = None, **details: str | float) -> Setup:
        """The preset *name*, with its parts overridden where they are given."""
        stock = name == STOCK
        details = ({"executor": "slurm", "name": STOCK} if stock else {}) | details
        ordering = find_ordering("fifo" if stock else name)
        on_slurm = details.get("executor") == "slurm"
        selection = selection or ("easy" if on_slurm else PRESETS.get(name, "backfill"))
        setup = replace(cls(ordering, selection), **details)  # type: ignore[arg-type]
        for part, known in (
            ("selection", SELECTIONS),
            ("placement", tuple(PLACEMENTS)),
            ("forecast", FORECASTS),
            ("executor", EXECUTORS),
        ):
            if getattr(setup, part) not in known:
                raise ConfigError(f"{part} {getattr(setup, part)!r} is not known; there are: {', '.join(known)}")
        if setup.executor == "slurm":
            setup.check_slurm()
        return setup

    def check_slurm(self) -> None:
        """ConfigError for a part that a Slurm cannot be made to do."""
        if self.selection not in RESERVING:
            raise ConfigError(
                f"selection {self.selection!r} is not what slurmctld does; on it there are: {', '.join(RESERVING)}"
            )
        if self.placement != "consolidate" or np.isfinite(self.admission):
            raise ConfigError("slurmctld places and admits by itself: executor slurm takes neither of the two")

    @property
    def label(self) -> str:
        """What a comparison calls it."""
        return self.name or self.ordering.name


@dataclass(frozen=True)
class Replay:
    """What became of each job; row *i* belongs to row *i* of the workload."""

    setup: Setup
    fleet: Fleet
    workload: Workload
    start_s: FloatArray  #: first start
    end_s: FloatArray
    spread: IntArray  #: most nodes a job was on
    stops: IntArray  #: preemptions
    forecast_s: FloatArray  #: the runtime the policy was told; NaN where it was told none
    idle_gpu_s: float = np.nan  #: GPU-seconds free while any job waited
    fragmented_gpu_s: float = np.nan  #: those of them free while a waiting job asked for no more GPUs than were free


def simulate(
    jobs: Workload, fleet: Fleet, setup: Setup, *, learnt: Forecast | None = None, generic: bool = False
) -> Replay:
    """Replay *jobs* on *fleet*; with *generic* through the slow loop that shows the policy a View at each decision.

    *learnt* is what a setup with ``forecast = "history"`` is told of each job. ConfigError names a job that asks for
    more GPUs than there are.
    """
    if len(jobs) and int(jobs.gpus.max()) > fleet.total:
        row = int(np.argmax(jobs.gpus))
        raise ConfigError(f"job {jobs.job_id[row]} asks for {jobs.gpus[row]} GPUs and the cluster has {fleet.total}")
    if setup.executor == "slurm":
        return _on_slurm(jobs, fleet, setup, learnt)
    site = _site(fleet, setup)
    told = _told(jobs, setup, learnt)
    if generic or setup.ordering.changes == "with_time":
        return _shown(jobs, fleet, setup, site, told)
    size = len(jobs)
    trace = Trace(jobs.submit_s, jobs.runtime_s, jobs.gpus, np.full(size, setup.restart_s))
    result = Result(
        np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    )
    if size and setup.selection == "preemptive":
        run_preemptively(trace, keys_of(jobs, setup.ordering, told), site, nobody(jobs.gpus), setup.beat_s, result)
    elif size and setup.selection in RESERVING:
        limits = _time_limits(jobs, f"reserve by with {setup.selection} backfill")
        key, how = keys_of(jobs, setup.ordering, told).at[0], RESERVING[setup.selection]
        run_reserving(trace, limits, key, site, how, setup.depth, result)
    elif size:
        key = keys_of(jobs, setup.ordering, told).at[0]
        run_to_end(trace, key, site, nobody(jobs.gpus), setup.selection == "strict", result)
    return Replay(setup, fleet, jobs, *result, forecast_s=told.runtime_s)


def _on_slurm(jobs: Workload, fleet: Fleet, setup: Setup, learnt: Forecast | None) -> Replay:
    """What a modelled slurmctld makes of it; with an ordering of ours, while our cycle writes to it."""
    conf = SlurmConf.easy() if setup.selection == "easy" else SlurmConf()
    conf = replace(conf, rules=conf.rules._replace(restart_s=setup.restart_s))
    cluster = SimulatedCluster(jobs, fleet, conf)
    if setup.ordering.native:
        said = no_forecast(len(jobs))
        cluster.advance(np.inf)
    else:
        said = _told(jobs, setup, learnt)
        policy = whole_queue(setup.ordering)
        Steering(cluster, policy, Told(jobs.job_id, said), every_s=setup.beat_s or EVERY_S).run()
    life = cluster.model.stage.life
    return Replay(
        setup, fleet, jobs, life.first_s.copy(), life.ended_s.copy(), life.spread.copy(), life.restarts.copy(),
        forecast_s=said.runtime_s,
    )  # fmt: skip


def keys_of(jobs: Workload, ordering: Ordering, told: Forecast) -> Keys:
    """The keys of all jobs as a function of the time they ran, got by asking the ordering itself.

    An ordering declares how its key depends on attained service: not at all, linearly, or in steps (GPU-seconds).
    Asked twice on each stretch between two steps, it has told everything.
    """
    view = all_pending(jobs, told)
    bounds = (0.0, *ordering.steps)
    at, slope = np.empty((len(bounds), len(jobs))), np.zeros(len(jobs))
    for level, bound in enumerate(bounds):
        ran_s = bound / jobs.gpus * (1 + 1e-12)
        at[level] = _ask(ordering, view, ran_s)
        if ordering.changes == "while_running":
            upper = bounds[level + 1] if level + 1 < len(bounds) else np.inf
            further_s = np.minimum(1.0, (upper - bound) / jobs.gpus / 2)
            slope = (_ask(ordering, view, ran_s + further_s) - at[level]) / further_s
            at[level] -= slope * ran_s
    return Keys(at, slope, np.array(ordering.steps, dtype=np.float64))


def _told(jobs: Workload, setup: Setup, learnt: Forecast | None) -> Forecast:
    """What the policy is told of each job's runtime."""
    if setup.forecast == "history":
        if learnt is None:
            raise ConfigError("forecast 'history' needs runs to learn from")
        return learnt
    runtime_s = jobs.runtime_s if setup.forecast == "exact" else _time_limits(jobs, "forecast by")
    source = Labels(np.zeros(len(jobs), dtype=np.int64), (setup.forecast,))
    return Forecast(runtime_s.copy(), runtime_s.copy(), runtime_s.copy(), source)


def all_pending(jobs: Workload, told: Forecast) -> View:
    """Every job of the trace as a pending one, with what the policy is told of it."""
    return View(
        0.0,
        _as_pending(jobs),
        job_table(0),
        table_of(NodeTable, 0, {}, {}),
        table_of(PartitionTable, 0, {}, {}),
        table_of(QosTable, 0, {}, {}),
        told,
        no_forecast(0),
    )


def _time_limits(jobs: Workload, what_for: str) -> FloatArray:
    missing = np.flatnonzero(~np.isfinite(jobs.time_limit_s))
    if len(missing):
        raise ConfigError(
            f"job {jobs.job_id[missing[0]]} and {len(missing) - 1} others have no time limit to {what_for}"
        )
    return jobs.time_limit_s


def _as_pending(jobs: Workload) -> JobTable:
    return job_table(
        len(jobs),
        **{name: getattr(jobs, name) for name in ("job_id", "user", "account", "partition", "qos", "name", "gpu_type")},
        gpus=jobs.gpus,
        nodes=np.maximum(jobs.nodes, 1),
        time_limit_s=jobs.time_limit_s,
        submitted_s=jobs.submit_s,
        first_submit_s=jobs.submit_s,
        eligible_s=jobs.submit_s,
    )


def _ask(ordering: Ordering, view: View, ran_s: FloatArray) -> FloatArray:
    shown = replace(view, pending=replace(view.pending, ran_s=ran_s.copy()))
    return np.asarray(ordering(shown), dtype=np.float64)


def _shown(jobs: Workload, fleet: Fleet, setup: Setup, site: Site, told: Forecast) -> Replay:
    """The generic loop: the ordering sees the jobs that are there, as they are, at each decision."""
    if setup.beat_s or setup.selection in RESERVING:
        raise ConfigError(f"ordering {setup.ordering.name} changes with time: it takes no beat and no reservations yet")
    view = all_pending(jobs, told)

    def keys(now_s: float, rows: IntArray, ran_s: FloatArray) -> FloatArray:
        return _ask(setup.ordering, replace(view.take(rows), now_s=now_s), ran_s)

    books = Books(jobs.submit_s, jobs.runtime_s, jobs.gpus, np.full(len(jobs), setup.restart_s), site)
    preemptive = setup.selection == "preemptive"
    steps = setup.ordering.steps if preemptive else ()
    replay(books, keys, steps=steps, strict=setup.selection == "strict", preemptive=preemptive)
    return Replay(setup, fleet, jobs, books.start_s, books.end_s, books.nodes, books.stops, told.runtime_s)


def _site(fleet: Fleet, setup: Setup) -> Site:
    how = PLACEMENTS[setup.placement]
    if setup.placement == "pool":
        return Site(np.array([fleet.total]), fleet.total, how)
    return Site(fleet.nodes.gpus.copy(), fleet.size, how)
