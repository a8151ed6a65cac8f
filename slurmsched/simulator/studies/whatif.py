"""The effect of another policy, or of more nodes, on the jobs that wait now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobState, JobTable
from ...cluster.nodes import NodeTable
from ...cluster.state import View
from ...decide.policy import Policy
from ...errors import ConfigError
from ...models.arrival_counter import ArrivalCounter
from ..cycle_driver import CycleDriver
from ..engine.job_state import Life
from ..fixed_forecast import FixedForecast
from ..slurmctld.slurmconf import SlurmConf
from ..snapshot import barred, held, one_row_per_task, resumed, unplaced

MOST_JOBS = 20_000

CYCLES, PASSES = 100, 400
"""Approximate cycles of ours without change and passes of slurmctld's backfill in one simulation: while a long
queue drains, both come less often than in reality."""

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


@dataclass(frozen=True)
class LeftOut:
    """A waiting job that is not in the figures."""

    job_id: int
    tasks: int
    kind: str  #: held, blocked (waits for what is not simulated), unfit (no nodes can hold it), stuck (never gets room)
    why: str


@dataclass(frozen=True)
class UserImpact:
    """A user whose jobs wait longer than in the present state, with the mean difference."""

    user: str
    jobs: int
    wait_s: float


@dataclass(frozen=True)
class OptionImpact:
    """The effect on the jobs that start under every option. Spans are from now on; NaN where no job does."""

    name: str
    starts: int  #: number of jobs that start under this option
    mean_wait_s: float
    median_wait_s: float
    mean_end_s: float
    last_end_s: float
    sooner: int  #: jobs that start sooner than in the present state
    later: int
    worst_off: tuple[UserImpact, ...]


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
    rows: tuple[OptionImpact, ...]


@dataclass(frozen=True)
class Course:
    """The start and end of each job of the queue under one option; NaN where it has none."""

    start_s: FloatArray
    end_s: FloatArray
    unfit: Mapping[int, str]  #: rows that no nodes could hold, and why


def compare(
    view: View,
    config: Mapping[str, str],
    options: Sequence[Option],
    every_s: float,
    arrivals: ArrivalCounter | None = None,
) -> Comparison:
    """Simulate each of *options* from *view* on; the first is the present state.

    *config* is the output of ``scontrol show config``; our cycles come every *every_s* seconds. *arrivals* are the
    submissions until now: rules follow the load.
    """
    jobs = view.pending
    waits_for = barred(jobs)
    out = held(jobs) | waits_for
    able = view.take(~out)
    tasks = simulated_tasks(able.pending)
    queue = one_row_per_task(replace(able, pending=replace(able.pending, tasks=tasks)))
    courses = [_course(queue, config, option, every_s, arrivals) for option in options]
    ends = np.array([course.end_s for course in courses])
    counted = ~np.isnan(ends).any(axis=0)
    users, base_s = queue.pending.user.take(counted), courses[0].start_s[counted] - view.now_s
    return Comparison(
        now_s=view.now_s,
        queued=int(jobs.tasks.sum()),
        counted=int(counted.sum()),
        running=len(view.running),
        suspended=int((view.running.state == JobState.SUSPENDED).sum()),
        beyond=int(able.pending.tasks.sum() - tasks.sum()),
        guessed=sum(source.startswith("no ") for source in queue.forecast.source.take(counted)),
        left_out=(*_waiting(jobs, out, waits_for), *_never(queue.pending, courses, ~counted)),
        rows=tuple(
            _row(option.name, course, counted, view.now_s, base_s, users)
            for option, course in zip(options, courses, strict=True)
        ),
    )


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


def _course(
    queue: View, config: Mapping[str, str], option: Option, every_s: float, arrivals: ArrivalCounter | None
) -> Course:
    """Simulate one option to its end."""
    view = queue if option.more is None else replace(queue, nodes=queue.nodes.joined(option.more))
    misfits = unplaced(view, config)
    fits = ~np.isin(np.arange(len(queue.pending)), list(misfits))
    start_s, end_s = np.full(len(fits), np.nan), np.full(len(fits), np.nan)
    if fits.any():
        life, running = _simulated(view.take(fits), config, option.policy, every_s, arrivals), len(view.running)
        start_s[fits], end_s[fits] = life.started_s[running:], life.ended_s[running:]
    return Course(start_s, end_s, misfits)


def _simulated(
    view: View, config: Mapping[str, str], policy: Policy | None, every_s: float, arrivals: ArrivalCounter | None
) -> Life:
    """Return the states of all jobs, at their end or when nothing more can happen."""
    drains_s, conf = span_s(view), SlurmConf.of(config)
    rules = conf.rules._replace(bf_interval_s=max(conf.rules.bf_interval_s, drains_s / PASSES))
    cluster = resumed(view, config, replace(conf, rules=rules))
    if policy is None:
        cluster.advance(np.inf)
    else:
        job_id = np.concatenate([view.pending.job_id, view.running.job_id])
        fixed_forecast = FixedForecast(job_id, view.forecast.joined(view.forecast_running))
        spacing_s, counter = drains_s / CYCLES, deepcopy(arrivals)
        CycleDriver(cluster, policy, fixed_forecast, every_s=every_s, spacing_s=spacing_s, arrivals=counter).run()
    return cluster.model.stage.life


def span_s(view: View) -> float:
    """Return the time for which running and waiting jobs would fill all GPUs without gaps."""
    ran_s = np.nan_to_num(np.maximum(view.now_s - view.running.started_s, 0.0))
    left_s = np.fmax(view.forecast_running.runtime_s - ran_s, 0.0)
    work_s = (view.pending.gpus * view.forecast.runtime_s).sum() + (view.running.gpus * left_s).sum()
    return float(work_s / max(1, view.nodes.gpus[view.nodes.usable].sum()))


def _row(
    name: str, course: Course, counted: BoolArray, now_s: float, base_s: FloatArray, users: Labels
) -> OptionImpact:
    wait_s, end_s = course.start_s[counted] - now_s, course.end_s[counted] - now_s
    change_s = wait_s - base_s
    least_s = np.maximum(CHANGED * base_s, CHANGED_S)
    some = len(wait_s) > 0
    return OptionImpact(
        name=name,
        starts=int((~np.isnan(course.end_s)).sum()),
        mean_wait_s=float(wait_s.mean()) if some else np.nan,
        median_wait_s=float(np.median(wait_s)) if some else np.nan,
        mean_end_s=float(end_s.mean()) if some else np.nan,
        last_end_s=float(end_s.max()) if some else np.nan,
        sooner=int((-change_s > least_s).sum()),
        later=int((change_s > least_s).sum()),
        worst_off=tuple(_worst(users, change_s)),
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
        why = jobs.reason[row] if kind == "held" or jobs.reason[row] not in {"", "None"} else jobs.dependency[row]
        yield LeftOut(int(jobs.job_id[row]), int(jobs.tasks[row]), kind, why or "priority 0")


def _never(jobs: JobTable, courses: Sequence[Course], rows: BoolArray) -> Iterator[LeftOut]:
    """Yield the jobs of *rows*, which do not end under some option; tasks of one array together."""
    why: dict[int, str] = {}
    for course in reversed(courses):
        why.update(course.unfit)
    tasks: dict[tuple[int, str], int] = {}
    for row in np.flatnonzero(rows).tolist():
        key = int(jobs.job_id[row]), why.get(row, "")
        tasks[key] = tasks.get(key, 0) + 1
    for (job_id, reason), many in tasks.items():
        yield LeftOut(job_id, many, "unfit" if reason else "stuck", reason or "its resources never become free")
