"""The effect of another policy, or of more nodes, on the jobs that wait now.

The queue is played forward several times, with runtimes drawn from the forecasts. Orderings know the forecasts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.forecast import Forecast
from ..cluster.jobs import JobState, JobTable
from ..cluster.nodes import NodeTable
from ..cluster.reasons import reason_of
from ..cluster.records.associations import AssociationTable
from ..cluster.state import View
from ..decide.policy import Policy
from ..decide.unshown_nodes import unshown_nodes, unshown_partitions
from ..errors import ConfigError
from ..models.arrival_counter import ArrivalCounter
from ..simulator.cycle_driver import CycleDriver
from ..simulator.engine.job_state import JobStates
from ..simulator.fixed_forecast import FixedForecast
from ..simulator.report.gain import Gain, gain_of
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.workload.workload import Workload
from .drawn_runtimes import certain, drawn
from .few_reservations import with_few_reservations
from .snapshot import barred, held, one_row_per_task, resumed, unplaced

MOST_JOBS = 20_000

CYCLES, PASSES = 100, 400
"""Approximate cycles of ours without change and passes of slurmctld's backfill in one simulation: while a long
queue drains, both come less often than in reality."""

FEWEST_DRAWS, MOST_DRAWS, WORK = 5, 20, 6_000_000
"""Times that each option is played, and the bound on jobs times nodes times options times draws between them."""

CHANGED, CHANGED_S = 0.1, 60.0
"""A start counts as changed where the wait changes by more than that share of itself, and by that many seconds."""

WORST = 5
"""Number of users named as worst off."""


@dataclass(frozen=True)
class Option:
    """An alternative to simulate: a policy, more nodes, or both."""

    name: str
    policy: Policy | None = None  #: None is stock Slurm
    more: NodeTable | None = None  #: additional nodes
    exact: bool = False  #: the ordering knows the drawn runtimes, as no site does


@dataclass(frozen=True)
class LeftOut:
    """A waiting job that is not in the figures."""

    job_id: int
    tasks: int
    #: held, blocked (waits for what is not simulated), unshown (Slurm does not show all nodes of its partition), unfit
    #: (no nodes can hold it), stuck (never gets room)
    kind: str
    why: str


@dataclass(frozen=True)
class UserImpact:
    """A user whose jobs wait longer than in the present state, with the mean difference."""

    user: str
    jobs: int
    wait_s: float


@dataclass(frozen=True)
class OptionImpact:
    """The effect on the jobs that start under every option, as means over all draws.

    Spans are from now on; NaN where no job does.
    """

    name: str
    starts: int  #: number of jobs that start under this option
    mean_wait_s: float
    median_wait_s: float
    mean_end_s: float
    last_end_s: float
    sooner: int  #: jobs that start sooner than in the present state
    later: int
    worst_off: tuple[UserImpact, ...]
    gain: Gain | None  #: in JCT over the first option; None for that itself


@dataclass(frozen=True)
class Comparison:
    """Every option beside the first, the present state. Each waiting task of an array counts as a job."""

    now_s: float
    queued: int
    counted: int  #: jobs that start under every option
    running: int
    suspended: int
    beyond: int  #: tasks of arrays beyond the limit of the simulation
    guessed: int  #: counted jobs whose forecast has no run behind it
    left_out: tuple[LeftOut, ...]
    draws: int  #: times that runtimes were drawn; 1 where the forecasts have no interval
    rows: tuple[OptionImpact, ...]
    assumed: tuple[str, ...] = ()  #: what one must know first: nodes that Slurm does not show


@dataclass(frozen=True)
class _Context:
    """What all options have in common."""

    queue: View
    futures: tuple[tuple[FloatArray, FloatArray], ...]  #: runtimes of pending and running jobs, for each draw
    config: Mapping[str, str]
    every_s: float
    arrivals: ArrivalCounter | None
    past: Workload | None
    associations: AssociationTable | None


@dataclass(frozen=True)
class SimulatedTimes:
    """The start and end of each job of the queue under one option, shape (draws, jobs); NaN where it has none."""

    start_s: FloatArray
    end_s: FloatArray
    unfit: Mapping[int, str]  #: rows that no nodes could hold, and why

    @property
    def starts(self) -> int:
        """The number of jobs that start, and end, in each draw."""
        return int((~np.isnan(self.end_s)).all(axis=0).sum())

    def of(self, jobs: BoolArray) -> SimulatedTimes:
        """Return the course of some *jobs*."""
        return SimulatedTimes(self.start_s[:, jobs], self.end_s[:, jobs], {})


def compare(
    view: View,
    config: Mapping[str, str],
    options: Sequence[Option],
    every_s: float,
    arrivals: ArrivalCounter | None = None,
    past: Workload | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    associations: AssociationTable | None = None,
) -> Comparison:
    """Simulate each of *options* from *view* on; the first is the present state.

    *config* is the output of ``scontrol show config``; our cycles come every *every_s* seconds. *arrivals* are the
    submissions until now: rules follow the load. Fair share knows the *past* runs and the *associations*; without these
    users have equal shares. *progress* is told how many of all plays are done, 0 before the first.
    """
    jobs = view.pending
    waits_for = barred(jobs, view.reservations)
    out = held(jobs) | waits_for
    able = view.take(~out)
    tasks = simulated_tasks(able.pending)
    queue = one_row_per_task(replace(able, pending=replace(able.pending, tasks=tasks)))
    draws = _draws(queue, len(options))
    context = _Context(queue, _futures(queue, draws), config, every_s, arrivals, past, associations)
    simulated = [_simulated_times(context, options, at, progress) for at in range(len(options))]
    counted = np.all([~np.isnan(course.end_s).any(axis=0) for course in simulated], axis=0)
    some = [course.of(counted) for course in simulated]
    counted_jobs = queue.pending.take(counted)
    return Comparison(
        now_s=view.now_s,
        queued=int(jobs.tasks.sum()),
        counted=int(counted.sum()),
        running=len(view.running),
        suspended=int(((view.running.state == JobState.SUSPENDED) & ~view.running.suspended_by_us).sum()),
        beyond=int(able.pending.tasks.sum() - tasks.sum()),
        guessed=sum(source.startswith("no ") for source in queue.forecast.source.take(counted)),
        left_out=(*_waiting(jobs, out, waits_for), *_never(queue, simulated, ~counted)),
        draws=draws,
        rows=tuple(
            _row(option.name, course.starts, one, some[0], view.now_s, counted_jobs)
            for option, course, one in zip(options, simulated, some, strict=True)
        ),
        assumed=tuple(unshown_partitions(view.partitions, view.nodes)),
    )


def _draws(queue: View, options: int) -> int:
    """Return how many times each of so many options is played."""
    if certain(queue):
        return 1
    work = max(1, len(queue.pending) * len(queue.nodes) * options)
    return int(np.clip(WORK // work, FEWEST_DRAWS, MOST_DRAWS))


def _futures(queue: View, draws: int) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Draw the runtimes of the jobs of *queue* so many times; where they are certain, they are the forecasts."""
    if certain(queue):
        return ((queue.forecast.runtime_s, queue.forecast_running.runtime_s),) * draws
    random = np.random.default_rng(0)
    return tuple(drawn(queue, random) for _ in range(draws))


def copies(view: View, count: int, like: str = "") -> NodeTable:
    """Return *count* idle nodes like the one called *like*, in its partitions.

    By default: like most usable GPU nodes of the partition that most waiting jobs request. ConfigError where
    there is no such node.
    """
    nodes = view.nodes
    names = list(nodes.name)
    if like and like not in names:
        raise ConfigError(f"there is no node {like!r}; the first of {len(names)} are: {', '.join(names[:5])}")
    row = names.index(like) if like else _usual(view)
    fresh = (name for number in range(1, len(names) + count + 1) if (name := f"more-{number}") not in names)
    return replace(
        nodes.take(np.full(count, row)),
        name=Labels.of(name for name, _ in zip(fresh, range(count), strict=False)),
        state=Labels.of(["idle"] * count),
        usable=np.ones(count, dtype=np.bool_),
        cpus_used=np.zeros(count, dtype=np.int64),
        memory_used_mib=np.zeros(count),
        gpus_used=np.zeros(count, dtype=np.int64),
    )


def _usual(view: View) -> int:
    """Return the row of a typical node of the partition that most jobs request."""
    partition_count: dict[str, int] = {}
    for names, tasks in zip(view.pending.partition, view.pending.tasks.tolist(), strict=True):
        for name in names.split(","):
            partition_count[name] = partition_count.get(name, 0) + tasks
    nodes = view.nodes
    wanted = max(partition_count, key=lambda name: partition_count[name], default="")
    there = nodes.partitions.map([wanted in text.split(",") for text in nodes.partitions.names], np.bool_)
    rows = np.flatnonzero(there & nodes.usable & (nodes.gpus > 0))
    if not len(rows):
        raise ConfigError(f"partition {wanted!r} has no usable node with GPUs to copy; say --like NODE")
    shape = np.stack([nodes.gpus, nodes.cpus, nodes.memory_mib, nodes.gpu_type.codes, nodes.features.codes])[:, rows]
    _, first, many = np.unique(shape, axis=1, return_index=True, return_counts=True)
    return int(rows[first[np.argmax(many)]])


def simulated_tasks(jobs: JobTable) -> IntArray:
    """Return the tasks to simulate of each row: all, or a reduced number of the largest arrays."""
    tasks = jobs.tasks
    if tasks.sum() <= MOST_JOBS:
        return tasks
    if len(jobs) >= MOST_JOBS:
        first = np.lexsort((jobs.job_id, -jobs.priority))[:MOST_JOBS]
        return np.isin(np.arange(len(jobs)), first).astype(np.int64)
    low, high = 1, int(tasks.max())
    while high - low > 1:
        middle = (low + high) // 2
        fits = np.minimum(tasks, middle).sum() <= MOST_JOBS
        low, high = (middle, high) if fits else (low, middle)
    return np.minimum(tasks, low)


def _simulated_times(
    context: _Context, options: Sequence[Option], number: int, progress: Callable[[int, int], None]
) -> SimulatedTimes:
    """Simulate option *number* to its end, once for each draw; *progress* is told before each play."""
    queue, option, draws = context.queue, options[number], len(context.futures)
    view = queue if option.more is None else replace(queue, nodes=queue.nodes.joined(option.more))
    misfits = unplaced(view, context.config)
    fits = ~np.isin(np.arange(len(queue.pending)), list(misfits))
    start_s, end_s = (np.full((draws, len(fits)), np.nan) for _ in range(2))
    for at, (waiting_s, running_s) in enumerate(context.futures):
        progress(number * draws + at, len(options) * draws)
        if fits.any():
            life = _simulated(context, option, _turning_out(view, waiting_s, running_s).take(fits), view.take(fits))
            start_s[at, fits] = life.started_s[len(view.running) :]
            end_s[at, fits] = life.ended_s[len(view.running) :]
    return SimulatedTimes(start_s, end_s, misfits)


def _turning_out(view: View, waiting_s: FloatArray, running_s: FloatArray) -> View:
    """Return *view* with these runtimes, as if they were known."""
    waiting, running = _known(view.forecast, waiting_s), _known(view.forecast_running, running_s)
    return replace(view, forecast=waiting, forecast_running=running)


def _known(forecast: Forecast, runtime_s: FloatArray) -> Forecast:
    return replace(forecast, runtime_s=runtime_s, low_s=runtime_s, high_s=runtime_s, floor_s=np.zeros(len(runtime_s)))


def _simulated(context: _Context, option: Option, truth: View, told: View) -> JobStates:
    """Return the states of all jobs, at their end or when nothing more can happen.

    *truth* has the runtimes that jobs need, *told* those that the ordering knows.
    """
    drains_s, policy = span_s(told), option.policy
    conf = with_few_reservations(SlurmConf.of(context.config, context.associations), told)
    rules = conf.rules._replace(bf_interval_s=max(conf.rules.bf_interval_s, drains_s / PASSES))
    cluster = resumed(truth, context.config, replace(conf, rules=rules), past=context.past)
    if policy is None:
        cluster.advance(np.inf)
    else:
        known = truth if option.exact else told
        job_id = np.concatenate([known.pending.job_id, known.running.job_id])
        fixed_forecast = FixedForecast(job_id, known.forecast.joined(known.forecast_running))
        spacing_s, counter = drains_s / CYCLES, deepcopy(context.arrivals)
        CycleDriver(
            cluster, policy, fixed_forecast, every_s=context.every_s, spacing_s=spacing_s, arrivals=counter
        ).run()
    return cluster.model.stage.life


def span_s(view: View) -> float:
    """Return the time for which running and waiting jobs would fill all GPUs without gaps."""
    work_s = (view.pending.gpus * view.forecast.runtime_s).sum()
    work_s += (view.running.gpus * view.remaining.median_s).sum()
    return float(work_s / max(1, view.nodes.gpus[view.nodes.usable].sum()))


def _row(
    name: str, starts: int, course: SimulatedTimes, now: SimulatedTimes, now_s: float, jobs: JobTable
) -> OptionImpact:
    """Return the figures of the *jobs* that count, beside the present state."""
    wait_s, end_s = course.start_s - now_s, course.end_s - now_s
    base_s = (now.start_s - now_s).mean(axis=0)
    change_s = wait_s.mean(axis=0) - base_s
    least_s = np.maximum(CHANGED * base_s, CHANGED_S)
    some = wait_s.size > 0
    submit_s = np.where(jobs.first_submit_s > 0, jobs.first_submit_s, now_s)
    return OptionImpact(
        name=name,
        starts=starts,
        mean_wait_s=float(wait_s.mean()) if some else np.nan,
        median_wait_s=float(np.median(wait_s)) if some else np.nan,
        mean_end_s=float(end_s.mean()) if some else np.nan,
        last_end_s=float(end_s.max(axis=1).mean()) if some else np.nan,
        sooner=int((-change_s > least_s).sum()),
        later=int((change_s > least_s).sum()),
        worst_off=tuple(_worst(jobs.user, change_s)),
        gain=None if course is now else gain_of(now.end_s - submit_s, course.end_s - submit_s),
    )


def _worst(users: Labels, change_s: FloatArray) -> Iterator[UserImpact]:
    """Yield the users whose jobs wait longer, the most affected first."""
    many = np.bincount(users.codes, minlength=len(users.names))
    sums = np.bincount(users.codes, change_s, len(users.names))
    mean_s = np.divide(sums, many, out=np.zeros(len(many)), where=many > 0)
    for row in np.argsort(-mean_s, kind="stable")[:WORST].tolist():
        if mean_s[row] > 0:
            yield UserImpact(users.names[row], int(many[row]), float(mean_s[row]))


def _waiting(jobs: JobTable, out: BoolArray, waits_for: BoolArray) -> Iterator[LeftOut]:
    for row in np.flatnonzero(out).tolist():
        kind = "blocked" if waits_for[row] else "held"
        why = jobs.reason[row] if kind == "held" or not reason_of(jobs.reason[row]).unseen else jobs.dependency[row]
        yield LeftOut(int(jobs.job_id[row]), int(jobs.tasks[row]), kind, why or "priority 0")


def _never(queue: View, simulated: Sequence[SimulatedTimes], rows: BoolArray) -> Iterator[LeftOut]:
    """Yield the jobs of *rows*, which do not end under some option; tasks of one array together."""
    jobs, unshown = queue.pending, unshown_nodes(queue)
    why: dict[int, str] = {}
    for course in reversed(simulated):
        why.update(course.unfit)
    tasks: dict[tuple[int, str, str], int] = {}
    for row in np.flatnonzero(rows).tolist():
        kind, reason = "unfit" if row in why else "stuck", why.get(row, "its resources never become free")
        if row in unshown:
            kind, reason = "unshown", "the nodes of its partition that are shown cannot hold it, or not in time"
        key = int(jobs.job_id[row]), kind, reason
        tasks[key] = tasks.get(key, 0) + 1
    for (job_id, kind, reason), many in tasks.items():
        yield LeftOut(job_id, many, kind, reason)
