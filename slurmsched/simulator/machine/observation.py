"""The jobs and nodes of a modelled Slurm, as squeue and sinfo would show them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.jobs import JobState, JobTable
from ...cluster.nodes import NodeTable
from ...cluster.text.hostlist import fold
from ...policies.selection.resources import NEXT, NODE, NONE
from ..cluster_spec import ClusterSpec
from ..engine.job_state import COMPLETED, PENDING, REQUEUED
from ..slurmctld.slurmctld import NOW, Controller

REASONS = ("Priority", "Resources", "AssocGrpGRES", "PartitionDown", "BeginTime", "JobHeldUser", "None")
PRIORITY, RESOURCES, LIMIT, DOWN, BEGIN, HELD, NOT_WAITING = range(len(REASONS))


def observed_jobs(model: Controller, submitted: JobTable, fleet: ClusterSpec, rows: IntArray) -> JobTable:
    """Return jobs in their present state; *submitted* has the columns that do not change."""
    table, life, wishes = submitted.take(rows), model.stage.life, model.wishes
    state = np.where(life.state[rows] == REQUEUED, JobState.COMPLETING, life.state[rows])
    started_s = np.where(state == PENDING, np.nan, life.started_s[rows])
    priority = np.maximum(1, model.base[rows] + wishes.points[rows] - wishes.nice[rows])
    return replace(
        table,
        state=state,
        reason=_reasons(model, table, rows),
        submitted_s=life.submit_s[rows],
        first_submit_s=life.submit_s[rows],
        eligible_s=life.begin_s[rows],
        started_s=started_s,
        ended_s=np.where(state == COMPLETED, life.ended_s[rows], started_s + table.time_limit_s),
        priority=np.where(wishes.held[rows], 0, priority),
        site_points=wishes.points[rows],
        nice=wishes.nice[rows],
        restarts=life.restarts[rows],
        node_list=Labels.of(_node_list(model, fleet, row) for row in rows.tolist()),
    )


def one_row_per_array(jobs: JobTable) -> JobTable:
    """Return waiting jobs with the tasks of each array as one row."""
    arrays = jobs.array_job_id
    if not (arrays > 0).any():
        return jobs
    unit = np.where(arrays > 0, arrays, -1 - np.arange(len(jobs)))
    _, first, tasks = np.unique(unit, return_index=True, return_counts=True)
    order = np.argsort(first)
    merged = jobs.take(first[order])
    is_array = merged.array_job_id > 0
    return replace(
        merged,
        tasks=tasks[order],
        job_id=np.where(is_array, merged.array_job_id, merged.job_id),
        task_id=np.where(is_array, -1, merged.task_id),
    )


def nodes_of(model: Controller, fleet: ClusterSpec) -> NodeTable:
    """Return the nodes with the resources in use."""
    resources, nodes = model.stage.resources, fleet.nodes
    words = np.where(resources.up, np.where(resources.free.gpus == resources.has.gpus, "idle", "mixed"), "down")
    return replace(
        nodes,
        state=nodes.state if (resources.up == nodes.usable).all() else Labels.of(words.tolist()),
        usable=resources.up.copy(),
        cpus_used=resources.has.cpus - resources.free.cpus,
        memory_used_mib=_gone(resources.has.memory_mib, resources.free.memory_mib),
        gpus_used=resources.has.gpus - resources.free.gpus,
    )


def _reasons(model: Controller, table: JobTable, rows: IntArray) -> Labels:
    """Return why each job waits, in Slurm's words; the first of its partitions waits for resources."""
    queue = model.queue.rows[: model.queue.many[0]]
    why = _why(model, queue)
    able = queue[why == PRIORITY]
    why = _why(model, rows)
    if len(able):
        _, first = np.unique(model.parts.of[able], return_index=True)
        why[np.isin(rows, able[first])] = RESOURCES
    why[model.stage.life.state[rows] != PENDING] = NOT_WAITING
    barred = model.wishes.barred[rows] & (why != NOT_WAITING)
    if not barred.any():
        return Labels(why, REASONS)
    own = list(table.reason)
    return Labels.of(own[at] if barred[at] else REASONS[why[at]] for at in range(len(rows)))


def _why(model: Controller, rows: IntArray) -> IntArray:
    account, gpus = model.caps.account[rows], model.stage.requests.gpus[rows]
    why = np.full(len(rows), PRIORITY, dtype=np.int64)
    why[model.caps.used[account] + gpus > model.caps.most[account]] = LIMIT
    why[~model.parts.up[model.parts.of[rows]]] = DOWN
    why[model.stage.life.begin_s[rows] > model.clock[NOW]] = BEGIN
    why[model.wishes.held[rows]] = HELD
    return why


def _node_list(model: Controller, fleet: ClusterSpec, row: int) -> str:
    held, on = model.stage.held, []
    spot = held.first[row]
    while spot != NONE:
        on.append(int(held.links[NODE, spot]))
        spot = held.links[NEXT, spot]
    return fold(fleet.nodes.name[node] for node in sorted(on))


def _gone(of: FloatArray, left: FloatArray) -> FloatArray:
    """Return the resources in use per node; unlimited ones count as 0."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(of - left, nan=0.0)
