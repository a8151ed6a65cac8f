"""From one look at a cluster to a simulation that goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.hostlist import expand
from ..cluster.jobs import JobState, JobTable
from ..cluster.state import View
from ..decide.ranking import base_priority
from .calendar import BEGIN, END, NEVER, note
from .cluster import SimulatedCluster
from .fleet import Fleet
from .ground import link
from .life import PENDING, RUNNING, SUSPENDED, line_up
from .multifactor import base_priority as modelled_base
from .slurmconf import SlurmConf
from .slurmctld import ARRIVED, CALC_DUE, NOW, Controller, key_of, stir
from .workload import Workload, workload

HELD = ("JobHeldUser", "JobHeldAdmin")
WAITS = ("", "None", "(null)", "Resources", "Priority", "BeginTime", *HELD)
"""Reasons that are modelled; who waits for anything else (a dependency, a limit, a reservation) keeps waiting."""

COMPLETION_S = 5.0
"""What is given to a job that is completing."""


def resumed(view: View, config: Mapping[str, str], conf: SlurmConf | None = None) -> SimulatedCluster:
    """The cluster of *view*, in virtual time from ``view.now_s`` on; forecasts are taken for the truth.

    *config* is what ``scontrol show config`` says. Pending tasks of an array become jobs of their own, seen as one row
    as before. Nobody else's jobs come any more.
    """
    pending = _expanded(view.pending)
    told_s = np.repeat(view.forecast.runtime_s, view.pending.tasks)
    running = view.running
    order = np.argsort(pending.job_id, kind="stable")
    table = running.joined(pending.take(order))
    ran_s = np.nan_to_num(np.maximum(view.now_s - running.started_s, 0.0))
    left_s = np.maximum(view.forecast_running.runtime_s - ran_s, 1.0)
    left_s = np.where(running.state == JobState.COMPLETING, COMPLETION_S, left_s)
    jobs = _as_workload(table, np.concatenate([left_s, np.maximum(told_s[order], 1.0)]), view.now_s)
    fleet = Fleet(view.nodes, view.partitions, view.qos)
    cluster = SimulatedCluster(jobs, fleet, conf or SlurmConf.of(config), config, submitted=table)
    _put(cluster, table, len(running), view)
    return cluster


def _expanded(pending: JobTable) -> JobTable:
    """One row per waiting task."""
    rows = np.repeat(np.arange(len(pending)), pending.tasks)
    table = pending.take(rows)
    return replace(table, tasks=np.ones(len(rows), dtype=np.int64))


def _as_workload(table: JobTable, runtime_s: FloatArray, now_s: float) -> Workload:
    """What the simulation has to know of each job."""
    nodes = np.maximum(table.nodes, 1)
    return workload(
        len(table),
        **{name: getattr(table, name) for name in ("job_id", "user", "account", "partition", "qos", "name", "gpus")},
        gpu_type=table.gpu_type,
        features=table.features,
        nodes=nodes,
        cpus=-(-table.cpus // nodes),
        memory_mib=table.memory_mib / nodes,
        time_limit_s=table.time_limit_s,
        submit_s=np.full(len(table), now_s),
        runtime_s=runtime_s,
    )


def _put(cluster: SimulatedCluster, table: JobTable, running: int, view: View) -> None:
    """Let what runs run where it does, and what waits wait with the priority it has."""
    model, now_s = cluster.model, view.now_s
    model.clock[NOW], model.clock[ARRIVED] = now_s, len(table)
    model.clock[CALC_DUE] = now_s + model.rules.calc_period_s
    model.usage.until_s[0] = now_s
    life = model.stage.life
    life.submit_s[:] = np.nan_to_num(table.submitted_s, nan=now_s)
    node = {name: at for at, name in enumerate(view.nodes.name)}
    for row in range(running):
        _run(model, table, row, node, now_s)
    model.wishes.points[:] = table.site_points
    model.wishes.nice[:] = table.nice
    model.base[:] = base_priority(table) + table.nice
    reasons = np.array(list(table.reason), dtype=object)
    model.wishes.held[:] = np.isin(reasons, HELD)
    model.wishes.barred[:] = ~np.isin(reasons, WAITS)
    for row in range(running, len(table)):
        life.state[row] = PENDING
        begin_s = float(table.eligible_s[row])
        life.begin_s[row] = begin_s if np.isfinite(begin_s) else now_s
        if begin_s > now_s:
            note(model.stage.calendar, begin_s, BEGIN, row)
        own = modelled_base(model.usage, model.weights, model.factors, row, max(0.0, now_s - life.begin_s[row]))
        model.factors.offset[row] += model.base[row] - own
        line_up(model.queue, row, key_of(model, row))
    stir(model, now_s)


def _run(model: Controller, table: JobTable, row: int, node: Mapping[str, int], now_s: float) -> None:
    """Put a job that runs on its nodes."""
    stage, life = model.stage, model.stage.life
    names = expand(table.node_list[row])
    for at, name in enumerate(names):
        gpus = int(table.gpus[row]) // len(names) + (at < int(table.gpus[row]) % len(names))
        link(stage.ground.free, stage.held, row, node[name], gpus, int(stage.asks.cpus[row]))
        stage.ground.free.memory_mib[node[name]] -= stage.asks.memory_mib[row]
    started_s = float(table.started_s[row]) if np.isfinite(table.started_s[row]) else now_s
    life.started_s[row] = life.first_s[row] = started_s
    life.spread[row], life.restarts[row] = len(names), table.restarts[row]
    line_up(stage.running, row, started_s + life.plan_s[row])
    model.caps.used[model.caps.account[row]] += stage.asks.gpus[row]
    life.since_s[row] = now_s
    if table.state[row] == JobState.SUSPENDED:
        life.state[row], life.due_s[row] = SUSPENDED, NEVER
        return
    life.state[row] = RUNNING
    life.due_s[row] = now_s + life.left_s[row]
    note(stage.calendar, life.due_s[row], END, row)
