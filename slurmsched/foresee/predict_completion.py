"""Predicted starts and finishes of the jobs in a View, if no others arrive: the simulation of PCS (OSDI 2024).

The modelled slurmctld continues from the View, in the active order, with forecasts as runtimes. The near future follows
slurm.conf; later, backfill runs less often, and in a large cluster it makes fewer reservations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.gpu_amounts import gpus_of_jobs
from ..cluster.jobs import JobState, JobTable
from ..cluster.limits import by_known_limits
from ..cluster.plan import Standing
from ..cluster.reason_table import MINUTES
from ..cluster.reasons import ReasonKind, reason_of, where_kind
from ..cluster.records.predictions import PredictionKind, PredictionTable, prediction_table
from ..cluster.reservations import followed, in_the_way, own_bounds_s
from ..cluster.state import View
from ..decide.job_nodes import nodes_by_kind
from ..explain.components import on_same_nodes
from ..explain.limits import doubts_of_limits
from ..explain.obstacles import cannot_run, obstacles
from ..explain.reserved_nodes import unread_words
from ..explain.unclear_requests import unclear_requests
from ..explain.unexplained_waits import unexplained
from ..simulator.engine.calendar import NEVER
from ..simulator.simulated_cluster import SimulatedCluster
from ..simulator.slurmctld.gates import met_by
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.slurmctld.state import CALC_DUE
from .few_reservations import with_few_reservations
from .lonely_starts import lonely_starts, placed_roughly
from .snapshot import barred, held, resumed, unplaced
from .whatif import simulated_tasks

PASSES = 12
"""Passes of backfill before the interval doubles with each one."""

DOUBLINGS = 20

SOON_S = 60.0
"""A job that is predicted to start as soon after the end of a window waits for it."""

_AWAY_S = 10 * 365 * 86_400.0  # so far ahead that they do not matter

_LEFT_ALONE = (Standing.OWNER_SAID_OFF, Standing.PRIORITY_FIXED, Standing.NICE_SET)
_ANY_TIME = (
    PredictionKind.DEPENDENT,
    PredictionKind.RESERVED,
    PredictionKind.LIMITED,
    PredictionKind.HETEROGENEOUS,
    PredictionKind.UNPLACED,
)
"""Kinds of jobs without a start that may come before any other."""

_WAITS_FOR_JOBS = (ReasonKind.DEPENDENCY, ReasonKind.DEPENDENCY_NEVER)


def predict_completion(
    view: View,
    rank: IntArray,
    standing: IntArray,
    config: Mapping[str, str],
    delayed_until_s: FloatArray | None = None,
) -> PredictionTable:
    """Predict start and finish of each job of *view*; *rank* and *standing* are those of its Plan, *config* is Slurm's.

    Jobs with a rank take, in that order, the places that Slurm's priorities give to all of these; others keep theirs.
    The ends follow the job's own forecast interval; the error of starts is not modelled (``from`` and ``by`` are the
    median).

    A job that we delay for promises starts after the promised ones have started, or at *delayed_until_s* at the latest
    (Unix seconds, shape (pending,), NaN for jobs that are not delayed). Pure.
    """
    delayed = np.zeros(len(view.pending), dtype=np.bool_) if delayed_until_s is None else np.isfinite(delayed_until_s)
    if delayed_until_s is None or not delayed.any():
        return _predicted(view, rank, standing, config)
    away = _predicted(_begun(view, np.where(delayed, view.now_s + _AWAY_S, np.nan)), rank, standing, config)
    starts_s = away.start_s[: len(view.pending)]
    promised = np.isin(view.pending.job_id, view.promises.job_id[view.promises.open]) & ~delayed & np.isfinite(starts_s)
    begins_s = np.full(len(view.pending), np.nan)
    for row in np.flatnonzero(delayed).tolist():
        ahead = promised & (rank < rank[row])
        over_s = float(starts_s[ahead].max(initial=view.now_s)) + 1.0
        begins_s[row] = min(over_s, float(delayed_until_s[row]))
    return _predicted(_begun(view, begins_s), rank, standing, config)


def _begun(view: View, begins_s: FloatArray) -> View:
    """Return *view* with these begin times for the pending jobs, NaN for those that keep theirs."""
    eligible_s = np.where(np.isnan(begins_s), view.pending.eligible_s, begins_s)
    return view.changed(pending=view.pending.changed(eligible_s=eligible_s))


def _predicted(view: View, rank: IntArray, standing: IntArray, config: Mapping[str, str]) -> PredictionTable:
    """Predict all jobs by one simulation."""
    kinds = _kinds(view, standing, np.zeros(len(view.pending), dtype=np.bool_))
    kinds = _kinds(view, standing, _opening(view, kinds))
    rows = np.array(list(cannot_run(view)), dtype=np.int64)
    kinds[rows[kinds[rows] != PredictionKind.HELD]] = PredictionKind.CANNOT_RUN
    kinds[_incomplete(view.pending, kinds)] = PredictionKind.HETEROGENEOUS
    able = np.flatnonzero(kinds <= PredictionKind.NO_HISTORY)
    simulated = view.take(able)
    tasks = simulated_tasks(simulated.pending)
    kinds[able[tasks == 0]] = PredictionKind.BEYOND
    has_tasks = tasks > 0
    not_placed = able[list(unplaced(simulated, config))].tolist()
    roughly = able[has_tasks & placed_roughly(simulated)].tolist()
    lonely_s = lonely_starts(view, dict.fromkeys((*not_placed, *roughly)))
    kinds[[row for row in not_placed if row not in lonely_s]] = PredictionKind.UNPLACED
    has_tasks[np.isin(able, [*not_placed, *lonely_s])] = False
    able, tasks = able[has_tasks], tasks[has_tasks]
    place = places(view, able, rank)
    simulated = view.take(able)
    order = replace(
        simulated.pending,
        tasks=tasks,
        priority=len(able) + 1 - place,
        site_points=np.zeros(len(able), dtype=np.int64),
        nice=np.zeros(len(able), dtype=np.int64),
    )
    cluster = _simulated(replace(simulated, pending=order), config)
    start_s, finish_s = _together(order, *_first_tasks(cluster, order, len(view.running)))
    kinds[able[np.isnan(finish_s)]] = PredictionKind.NO_ROOM
    kinds[able[np.isnan(finish_s) & (order.het_job_id > 0)]] = PredictionKind.HETEROGENEOUS
    running = _running(view, cluster)
    ahead = _ahead(cluster, view, able, tasks, place)
    if lonely_s:
        able = np.append(able, np.array(list(lonely_s), dtype=np.int64))
        place_, before, ahead_s, running_s = ahead
        none, no_s = np.zeros(len(lonely_s), dtype=np.int64), np.zeros(len(lonely_s))
        ahead = np.append(place_, none), np.append(before, none), np.append(ahead_s, no_s), np.append(running_s, no_s)
        alone_s = np.array(list(lonely_s.values()))
        runtime_s = view.forecast.runtime_s[list(lonely_s)]
        start_s, finish_s = np.append(start_s, alone_s), np.append(finish_s, alone_s + runtime_s)
    return _pending(view, kinds, able, start_s, finish_s, ahead).joined(running)


def _opening(view: View, kinds: IntArray) -> BoolArray:
    """Select the pending jobs that a limit or a dependency holds until jobs end or start that are played forward."""
    jobs, running = view.pending, len(view.running)
    table = view.running.joined(jobs)
    by_limit = by_known_limits(view.limits, view.partitions, jobs) & (kinds == PredictionKind.LIMITED)
    able = (kinds <= PredictionKind.NO_HISTORY) | by_limit
    waits = kinds == PredictionKind.DEPENDENT
    everybody = np.concatenate([np.ones(running, dtype=np.bool_), able | waits])
    return np.asarray(by_limit | (waits & met_by(table, running, everybody)[running:]))


def _together(jobs: JobTable, start_s: FloatArray, finish_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Let the components of each heterogeneous job start when the last of them has room.

    NaN where one of them never has, or had ended by then: they may have had room one after the other alone.
    """
    start_s, finish_s = start_s.copy(), finish_s.copy()
    for leader in np.unique(jobs.het_job_id[jobs.het_job_id > 0]).tolist():
        rows = jobs.het_job_id == leader
        last_s = start_s[rows].max()
        if (finish_s[rows] <= last_s).any():
            last_s = np.nan
        finish_s[rows] += last_s - start_s[rows]
        start_s[rows] = last_s
    return start_s, finish_s


def _kinds(view: View, standing: IntArray, opening: BoolArray) -> IntArray:
    """Classify each pending job by what can be predicted before the simulation.

    Of *opening* jobs it is known what opens the way for them.
    """
    jobs = view.pending
    up = dict(zip(view.partitions.name, view.partitions.up.tolist(), strict=True))
    down = [not any(up.get(name, not up) for name in names.split(",")) for names in jobs.partition.names]

    def because(*reasons: ReasonKind) -> BoolArray:
        return where_kind(jobs, *reasons)

    kinds = np.full(len(jobs), int(PredictionKind.PREDICTED), dtype=np.int64)
    guessed = view.forecast.source.map([name.startswith("no ") for name in view.forecast.source.names], np.bool_)
    for rows, kind in (
        (jobs.tasks > 1, PredictionKind.ARRAY),
        (np.isin(standing, _LEFT_ALONE), PredictionKind.LEFT_ALONE),
        (guessed, PredictionKind.NO_HISTORY),
        (barred(jobs, view.reservations) & ~opening, PredictionKind.LIMITED),
        (jobs.partition.map(down, np.bool_) | because(ReasonKind.CLOSED), PredictionKind.PARTITION_DOWN),
        (jobs.reservation.nonempty() & ~followed(view.reservations, jobs), PredictionKind.RESERVED),
        ((jobs.dependency.nonempty() | because(*_WAITS_FOR_JOBS)) & ~opening, PredictionKind.DEPENDENT),
        (held(jobs), PredictionKind.HELD),
    ):
        kinds[rows] = kind
    return kinds


def _incomplete(jobs: JobTable, kinds: IntArray) -> BoolArray:
    """Select the components of heterogeneous jobs of which another one is not played forward."""
    bad = np.unique(jobs.het_job_id[(jobs.het_job_id > 0) & (kinds > PredictionKind.NO_HISTORY)])
    return np.isin(jobs.het_job_id, bad) & (kinds <= PredictionKind.NO_HISTORY)


def places(view: View, able: IntArray, rank: IntArray) -> IntArray:
    """Return the place of each of the *able* rows in the active order, 0 the first."""
    jobs = view.pending.take(able)
    by_slurm = np.lexsort((jobs.job_id, -jobs.priority, -view.tiers[able]))
    ours = rank[able]
    seats = np.flatnonzero(ours[by_slurm] >= 0)
    ranked = np.flatnonzero(ours >= 0)
    by_slurm[seats] = ranked[np.argsort(ours[ranked], kind="stable")]
    by_slurm = by_slurm[np.argsort(~jobs.reservation.nonempty()[by_slurm], kind="stable")]
    place = np.empty(len(able), dtype=np.int64)
    place[by_slurm] = np.arange(len(able))
    return place


def _simulated(view: View, config: Mapping[str, str]) -> SimulatedCluster:
    """Simulate the cluster until nothing is left to happen."""
    conf = with_few_reservations(SlurmConf.of(config), view)
    rules = conf.rules
    cluster = resumed(view, config, conf)
    cluster.model.clock[CALC_DUE] = NEVER  # the order stays as it is
    interval_s, until_s = max(1.0, rules.bf_interval_s), view.now_s
    for _ in range(DOUBLINGS):
        until_s += PASSES * interval_s
        cluster.advance(until_s)
        interval_s *= 2
        rules = rules._replace(bf_interval_s=interval_s, bf_resolution_s=max(rules.bf_resolution_s, interval_s))
        cluster.model = cluster.model._replace(rules=rules)
        if cluster.drained:
            break
    cluster.advance(np.inf)
    return cluster


def _first_tasks(cluster: SimulatedCluster, jobs: JobTable, running: int) -> tuple[FloatArray, FloatArray]:
    """Return start and finish of each row of *jobs*, for an array those of its first task to start; NaN where none."""
    life = cluster.model.stage.life
    rows = _rows_of_tasks(jobs)
    start_s, finish_s = np.full(len(jobs), np.inf), np.full(len(jobs), np.inf)
    np.fmin.at(start_s, rows, life.first_s[running:])
    np.fmin.at(finish_s, rows, life.ended_s[running:])
    never = ~np.isfinite(finish_s)
    return np.where(never, np.nan, start_s), np.where(never, np.nan, finish_s)


def _rows_of_tasks(jobs: JobTable) -> IntArray:
    """Return, for each row of ``one_row_per_task``, the row of *jobs* that it came from."""
    rows = np.repeat(np.arange(len(jobs)), jobs.tasks)
    return rows[np.argsort(jobs.job_id[rows], kind="stable")]


def _ahead(
    cluster: SimulatedCluster, view: View, able: IntArray, tasks: IntArray, place: IntArray
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return rank, waiting tasks ahead, their work, and that of running jobs, for each of the *able* rows.

    Work is GPU-seconds; core-seconds for a job without GPUs.
    """
    parts, many = cluster.model.parts, len(view.running)
    jobs = view.pending.take(able)
    by_job = np.argsort(jobs.job_id, kind="stable")
    first = np.empty(len(able), dtype=np.int64)
    first[by_job] = np.cumsum(tasks[by_job]) - tasks[by_job]
    of = parts.of[many + first]
    touches = parts.nodes.astype(np.float64) @ parts.nodes.T.astype(np.float64) > 0
    gpus, running_gpus = (gpus_of_jobs(table, view.gpu_parts) for table in (jobs, view.running))
    many_of = ((jobs.gpus > 0, gpus, running_gpus), (jobs.gpus == 0, jobs.cpus, view.running.cpus))
    order = np.argsort(place)
    ahead, ahead_s, running_s = np.zeros(len(able), dtype=np.int64), np.zeros(len(able)), np.zeros(len(able))
    for one in np.unique(of).tolist():
        mine, shares = of == one, touches[one][of[order]]
        ahead[mine] = (np.cumsum(tasks[order] * shares) - tasks[order] * shares)[place[mine]]
        for alike, width, running_width in many_of:
            rows = mine & alike
            work = (tasks * width * view.forecast.runtime_s[able])[order] * shares
            ahead_s[rows] = (np.cumsum(work) - work)[place[rows]]
            running_s[rows] = (running_width * view.remaining.median_s)[touches[one][parts.of[:many]]].sum()
    return place, ahead, ahead_s, running_s


def _pending(
    view: View,
    kinds: IntArray,
    able: IntArray,
    start_s: FloatArray,
    finish_s: FloatArray,
    ahead: tuple[IntArray, IntArray, FloatArray, FloatArray],
) -> PredictionTable:
    """Return the rows of the waiting jobs."""
    jobs, forecast = view.pending, view.forecast

    def spread(values: IntArray | FloatArray, otherwise: float) -> FloatArray:
        column = np.full(len(jobs), otherwise)
        column[able] = values
        return column

    starts_s, finishes_s = spread(start_s, np.nan), spread(finish_s, np.nan)
    doubts = on_same_nodes(view) | unexplained(view) | unclear_requests(view.pending)
    kept = {row: " ".join(words) for row, words in doubts.items()} | obstacles(view)
    if unread := unread_words(view):
        told = np.flatnonzero(kinds <= PredictionKind.NO_HISTORY).tolist()
        kept |= {row: f"{unread} {kept.get(row, '')}".strip() for row in told}
    rank, before, ahead_s, running_s = ahead
    unsure = doubts_of_limits(view, jobs, starts_s, _turns(jobs, kinds, spread(rank, np.inf)))
    return prediction_table(
        len(jobs),
        **_same(view, jobs),
        kind=kinds,
        start_s=starts_s,
        start_from_s=starts_s,
        start_by_s=starts_s,
        finish_s=finishes_s,
        finish_from_s=finishes_s + np.minimum(0.0, forecast.low_s - forecast.runtime_s),
        finish_by_s=finishes_s + np.maximum(0.0, forecast.high_s - forecast.runtime_s),
        begins_s=_begins_s(view, starts_s),
        slurm_start_s=jobs.slurm_start_s,
        rank=spread(rank, -1),
        ahead=spread(before, 0),
        ahead_gpu_s=spread(ahead_s, np.nan),
        running_gpu_s=spread(running_s, np.nan),
        power_s=spread(_power_s(view, able, start_s), 0.0),
        runtime_s=forecast.runtime_s,
        source=forecast.source,
        obstacle=Labels.of(kept.get(row, "") for row in range(len(jobs))),
        doubts=Labels.of("\n".join(unsure.get(row, ())) for row in range(len(jobs))),
    )


def _turns(jobs: JobTable, kinds: IntArray, place: FloatArray) -> FloatArray:
    """Return the *place* of each job for minutes of limits that jobs before others use up.

    Jobs that are not played forward may come before all; those that cannot start, or not so far, never do.
    """
    limits = [reason_of(text).limit for text in jobs.reason.names]
    spent = jobs.reason.map([limit is not None and limit.over == MINUTES for limit in limits], np.bool_)
    any_time = np.isin(kinds, _ANY_TIME) & ~spent
    return np.where(any_time, -1.0, place)


def _begins_s(view: View, starts_s: FloatArray) -> FloatArray:
    """Return the time before which each waiting job cannot start: its begin time, or a window that it waits for."""
    jobs, windows = view.pending, view.reservations
    own_s, _ = own_bounds_s(windows, jobs, view.now_s)
    eligible_s = np.where(np.isfinite(jobs.eligible_s), jobs.eligible_s, 0.0)
    begins_s = np.maximum(np.maximum(own_s, eligible_s), 0.0)
    for row in range(len(windows)):
        over_s = windows.end_s[row]
        behind = (starts_s >= over_s) & (starts_s <= over_s + SOON_S) & in_the_way(windows, row, view.nodes, jobs)
        begins_s[behind] = np.maximum(begins_s[behind], over_s)
    return np.asarray(np.where(begins_s > view.now_s, begins_s, 0.0))


def _power_s(view: View, able: IntArray, start_s: FloatArray) -> FloatArray:
    """Return how long the nodes of the *able* jobs take to power up, where these run as soon as they have."""
    ready_s, found = np.unique(view.nodes.ready_s[view.nodes.ready_s > 0]), np.zeros(len(able))
    if not len(ready_s):
        return found
    kind, allowed = nodes_by_kind(view, view.pending.take(able))
    for one in ready_s.tolist():
        has_such = (allowed & (view.nodes.ready_s == one)).any(axis=1)[kind]
        found[has_such & (np.abs(start_s - view.now_s - one) < 0.5)] = one
    return found


def _running(view: View, cluster: SimulatedCluster) -> PredictionTable:
    """Return the rows of the running jobs, whose ends come from their forecasts alone."""
    jobs, forecast = view.running, view.forecast_running
    goes_on = (jobs.state != JobState.SUSPENDED) | jobs.suspended_by_us
    finish_s = np.where(goes_on, cluster.model.stage.life.ended_s[: len(jobs)], np.nan)
    started_s = jobs.started_s
    return prediction_table(
        len(jobs),
        **_same(view, jobs),
        kind=np.where(goes_on, int(PredictionKind.RUNNING), int(PredictionKind.SUSPENDED)),
        start_s=started_s,
        start_from_s=started_s,
        start_by_s=started_s,
        finish_s=finish_s,
        finish_from_s=np.fmin(finish_s, view.now_s + view.remaining.low_s),
        finish_by_s=np.fmax(finish_s, view.now_s + view.remaining.high_s) + 0.0 * finish_s,
        runtime_s=forecast.runtime_s,
        source=forecast.source,
    )


def _same(view: View, jobs: JobTable) -> dict[str, object]:
    """Return the columns that waiting and running jobs have in common."""
    names = (
        *("job_id", "array_job_id", "first_submit_s", "restarts", "user", "account", "partition"),
        *("gpus", "tasks", "time_limit_s", "reason"),
    )
    return {name: getattr(jobs, name) for name in names} | {"made_s": np.full(len(jobs), view.now_s)}
