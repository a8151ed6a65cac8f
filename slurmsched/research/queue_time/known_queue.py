"""The queue of a log at a moment, as a View: running and waiting jobs, and a cluster of the size seen until then."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.forecast import no_forecast
from ...cluster.jobs import JobState, JobTable, job_table
from ...cluster.nodes import NodeTable, PartitionTable, QosTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.state import View
from .wait_log import WaitLog

ANY = "all"  #: the partition of jobs that name none


def view_at(known: WaitLog, now_s: float, *, shared: bool) -> View:
    """Build the view at *now_s* of what was known then, without forecasts.

    No log says which nodes there are. So each partition, or all together where they are *shared*, has one node with as
    many GPUs and CPUs as jobs used at once until now, and at least as many as any job asked for.
    """
    partition = _named(known.partition)
    pool = np.zeros(len(known), dtype=np.int64) if shared else partition.codes
    names = partition.names or (ANY,)
    pools = 1 if shared else len(names)
    nodes = _nodes(known, pool, [",".join(names)] if shared else list(names), pools)
    waiting, running = np.flatnonzero(known.waits), np.flatnonzero(known.runs)
    priority = _priorities(known, waiting)
    waits = Labels.of(["Priority"] * len(waiting))
    pending = _jobs(known, waiting, partition, state=JobState.PENDING, reason=waits, priority=priority)
    where = Labels(pool[running], tuple(nodes.name))
    runs = _jobs(known, running, partition, state=JobState.RUNNING, started_s=known.start_s[running], node_list=where)
    return View(
        now_s,
        pending,
        runs,
        nodes,
        _partitions(names, ["pool0"] * len(names) if shared else list(nodes.name)),
        QosTable(Labels.of([]), np.zeros(0, dtype=np.int64)),
        no_forecast(len(pending)),
        no_forecast(len(runs)),
    )


def ended_runs(known: WaitLog, before: WaitLog | None) -> OutcomeTable:
    """Return what ended of *known*, without what had ended in the earlier log *before*, in the order of ends."""
    ended = np.isfinite(known.end_s)
    if before is not None:
        ended[: len(before)] &= ~np.isfinite(before.end_s)
    rows = np.flatnonzero(ended)
    rows = rows[np.argsort(known.end_s[rows], kind="stable")]
    jobs = known.take(rows)
    none = np.zeros(len(jobs), dtype=np.int64)
    ran = np.isfinite(jobs.start_s)
    return OutcomeTable(
        job_id=_ids(rows),
        restart=none,
        name=jobs.name,
        user=jobs.user,
        account=jobs.account,
        qos=jobs.qos,
        partition=_named(jobs.partition),
        gpus=jobs.gpus,
        nodes=np.maximum(jobs.nodes, 1),
        cpus=_cpus(jobs),
        time_limit_s=jobs.time_limit_s,
        first_submit_s=jobs.submit_s,
        eligible_s=jobs.submit_s,
        started_s=jobs.start_s,
        ended_s=jobs.end_s,
        runtime_s=np.where(ran, jobs.end_s - jobs.start_s, 0.0),
        state=np.where(ran, int(JobState.COMPLETED), int(JobState.CANCELLED)),
    )


def most_at_once(pool: IntArray, pools: int, amount: IntArray, start_s: FloatArray, end_s: FloatArray) -> IntArray:
    """Return the largest sum of *amount* over jobs of each pool that ran at one time; ends come before starts."""
    starts, ends = np.flatnonzero(np.isfinite(start_s)), np.flatnonzero(np.isfinite(start_s) & np.isfinite(end_s))
    of = np.concatenate([pool[ends], pool[starts]])
    change = np.concatenate([-amount[ends], amount[starts]])
    order = np.lexsort((change > 0, np.concatenate([end_s[ends], start_s[starts]]), of))
    of, used = of[order], np.cumsum(change[order])
    before = np.zeros(pools, dtype=np.int64)
    np.add.at(before, pool[starts], amount[starts])
    np.subtract.at(before, pool[ends], amount[ends])
    base = np.cumsum(before) - before
    most = np.zeros(pools, dtype=np.int64)
    np.maximum.at(most, of, used - base[of])
    return most


def _nodes(known: WaitLog, pool: IntArray, partitions: list[str], pools: int) -> NodeTable:
    amounts: dict[str, IntArray] = {}
    running = known.runs
    for name, asked in (("gpus", known.gpus), ("cpus", _cpus(known))):
        most = most_at_once(pool, pools, asked, known.start_s, known.end_s)
        np.maximum.at(most, pool, asked)
        used = np.bincount(pool[running], asked[running], minlength=pools).astype(np.int64)
        amounts[name] = np.maximum(most, used)
        amounts[f"{name}_used"] = used
    none, empty = np.zeros(pools), Labels.of([""] * pools)
    return NodeTable(
        name=Labels.of([f"pool{number}" for number in range(pools)]),
        partitions=Labels.of(partitions),
        state=Labels.of(["mixed"] * pools),
        usable=np.ones(pools, dtype=np.bool_),
        cpus=amounts["cpus"],
        cpus_used=amounts["cpus_used"],
        memory_mib=none,
        memory_used_mib=none.copy(),
        gpus=amounts["gpus"],
        gpus_used=amounts["gpus_used"],
        gpu_type=empty,
        features=empty,
    )


def _partitions(names: tuple[str, ...], nodes: list[str]) -> PartitionTable:
    count = len(names)
    return PartitionTable(
        Labels.of(names),
        np.ones(count, dtype=np.int64),
        np.ones(count, dtype=np.bool_),
        np.full(count, np.inf),
        Labels.of(nodes),
    )


def _priorities(known: WaitLog, waiting: IntArray) -> IntArray:
    """Return the priorities of the waiting jobs: the log's, or by arrival where it has none."""
    told = known.priority[waiting]
    if len(told) and (told > 0).all():
        distinct = np.unique(told)
        return np.searchsorted(distinct, told) + 2
    return np.arange(len(waiting), 0, -1) + 1


def _jobs(known: WaitLog, rows: IntArray, partition: Labels, **columns: Any) -> JobTable:
    jobs = known.take(rows)
    state = np.full(len(jobs), int(columns.pop("state")), dtype=np.int64)
    return job_table(
        len(jobs),
        job_id=_ids(rows),
        state=state,
        name=jobs.name,
        user=jobs.user,
        account=jobs.account,
        qos=jobs.qos,
        partition=partition.take(rows),
        gpus=jobs.gpus,
        cpus=_cpus(jobs),
        time_limit_s=jobs.time_limit_s,
        submitted_s=jobs.submit_s,
        first_submit_s=jobs.submit_s,
        eligible_s=jobs.submit_s,
        **columns,
    )


def _ids(rows: IntArray) -> IntArray:
    """Return ids of *rows* that no two jobs share: their numbers in the log."""
    return np.asarray(rows + 1)


def _cpus(jobs: WaitLog) -> IntArray:
    """Return the CPUs of each job; one for each GPU where they are not known."""
    return np.maximum(1, np.where(jobs.cpus > 0, jobs.cpus, jobs.gpus))


def _named(partition: Labels) -> Labels:
    """Return the names as Slurm could have them: not empty, and no lists."""
    return partition.renamed([name.replace(",", "+") or ANY for name in partition.names])
