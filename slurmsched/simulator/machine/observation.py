"""The jobs and nodes of a modelled Slurm, as squeue and sinfo would show them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.jobs import JobState, JobTable
from ...cluster.nodes import NodeTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.text.hostlist import fold
from ...policies.selection.resources import GPUS, NEXT, NODE, NONE, Held
from ..cluster_spec import ClusterSpec
from ..engine.job_state import COMPLETED, PENDING, REQUEUED, RUNNING
from ..slurmctld.state import NOW, Controller
from ..workload.workload import Workload

AT_LIMIT = "AssocGrpGRES"
REASONS = ("Priority", "Resources", AT_LIMIT, "PartitionDown", "BeginTime", "JobHeldUser", "None")
PRIORITY, RESOURCES, LIMIT, DOWN, BEGIN, HELD, NOT_WAITING = range(len(REASONS))


def observed_jobs(model: Controller, submitted: JobTable, fleet: ClusterSpec, rows: IntArray) -> JobTable:
    """Return jobs in their present state; *submitted* has the columns that do not change."""
    table, life, wishes = submitted.take(rows), model.stage.life, model.wishes
    state = np.where(life.state[rows] == REQUEUED, JobState.COMPLETING, life.state[rows])
    started_s = np.where(state == PENDING, np.nan, life.started_s[rows])
    node_list, node_gpus = _allocations(model, fleet, rows)
    # Slurm's times are whole seconds: when a job may start again counts from that of its requeue.
    submitted_s = np.where(life.restarts[rows] > 0, np.floor(life.submit_s[rows]), life.submit_s[rows])
    priority = np.maximum(1, model.base[rows] + wishes.points[rows] - wishes.nice[rows])
    return table.changed(
        state=state,
        reason=_reasons(model, table, rows),
        submitted_s=submitted_s,
        eligible_s=life.begin_s[rows],
        started_s=started_s,
        ended_s=np.where(state == COMPLETED, life.ended_s[rows], started_s + table.time_limit_s),
        priority=np.where(wishes.held[rows], 0, priority),
        site_points=wishes.points[rows],
        nice=wishes.nice[rows],
        restarts=life.restarts[rows],
        node_list=node_list,
        node_gpus=node_gpus,
    )


def ran_s(model: Controller, rows: IntArray) -> FloatArray:
    """Return how long each job has run in all its runs."""
    life, now_s = model.stage.life, float(model.clock[NOW])
    this_s = np.where(life.state[rows] == RUNNING, now_s - np.nan_to_num(life.since_s[rows]), 0.0)
    return np.asarray(life.ran_s[rows] + np.maximum(this_s, 0.0))


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
    return merged.changed(
        tasks=tasks[order],
        job_id=np.where(is_array, merged.array_job_id, merged.job_id),
        task_id=np.where(is_array, -1, merged.task_id),
    )


def outcomes_of(model: Controller, jobs: Workload, table: JobTable, rows: IntArray) -> OutcomeTable:
    """Return the last runs of ended *jobs*, with their true times; *table* has their partitions."""
    life = model.stage.life
    return OutcomeTable(
        job_id=jobs.job_id,
        restart=life.restarts[rows],
        **{name: getattr(jobs, name) for name in ("name", "user", "account", "qos")},
        partition=table.partition,
        gpus=jobs.gpus,
        nodes=table.nodes,
        cpus=table.cpus,
        time_limit_s=table.time_limit_s,
        first_submit_s=jobs.submit_s,
        eligible_s=life.begin_s[rows],
        started_s=life.started_s[rows],
        ended_s=life.ended_s[rows],
        runtime_s=life.ended_s[rows] - life.started_s[rows],
        state=np.full(len(rows), JobState.COMPLETED, dtype=np.int64),
    )


def nodes_of(model: Controller, fleet: ClusterSpec) -> NodeTable:
    """Return the nodes with the resources in use."""
    resources, nodes = model.stage.resources, fleet.nodes
    idle = resources.free.cpus == resources.has.cpus
    words = np.where(resources.up, np.where(idle, "idle", "mixed"), "down")
    return nodes.changed(
        state=nodes.state if (resources.up == nodes.usable).all() else Labels.of(words.tolist()),
        usable=resources.up.copy(),
        cpus_used=resources.has.cpus - resources.free.cpus,
        memory_used_mib=_gone(resources.has.memory_mib, resources.free.memory_mib),
        gpus_used=resources.has.gpus - resources.free.gpus,  # all of a node with slots, as sinfo is read there
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


def _allocations(model: Controller, fleet: ClusterSpec, rows: IntArray) -> tuple[Labels, Labels]:
    """Return the nodes of each job, and its GPUs on each of them."""
    count, node, gpus = _of_links(model.stage.held, rows, model.stage.resources.closed.first)
    names, lists, counts = fleet.nodes.name, [""] * len(rows), [""] * len(rows)
    on, many, first = node.tolist(), gpus.tolist(), 0
    for at in np.flatnonzero(count).tolist():
        end = first + int(count[at])
        if end == first + 1:
            lists[at], counts[at] = names.names[names.codes[on[first]]], str(many[first])
        else:
            lists[at] = _folded(names, tuple(on[first:end]))
            counts[at] = ",".join(map(str, many[first:end]))
        first = end
    return Labels.of(lists), Labels.of(counts)


def _of_links(held: Held, rows: IntArray, parts: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return on how many nodes each of *rows* is, and the nodes and GPUs of all of them, by node within a row.

    Rows of nodes from *parts* on stand for parts of others.
    """
    spot, links = held.first[rows], held.links
    row, node, gpus = [], [], []
    at = np.flatnonzero(spot != NONE)
    while len(at):
        row.append(at)
        node.append(links[NODE, spot[at]])
        gpus.append(links[GPUS, spot[at]])
        spot[at] = links[NEXT, spot[at]]
        at = at[spot[at] != NONE]
    if not row:
        return np.zeros(len(rows), dtype=np.int64), spot[:0], spot[:0]
    of, nodes = np.concatenate(row), np.concatenate(node)
    order = np.lexsort((nodes, of))
    order = order[nodes[order] < parts]
    return np.bincount(of[order], minlength=len(rows)), nodes[order], np.concatenate(gpus)[order]


@lru_cache(maxsize=4_096)  # a job keeps its nodes for many cycles
def _folded(names: Labels, nodes: tuple[int, ...]) -> str:
    return fold(names[node] for node in nodes)


def _gone(of: FloatArray, left: FloatArray) -> FloatArray:
    """Return the resources in use per node; unlimited ones count as 0."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(of - left, nan=0.0)
