"""The rows of a report: runs that had a part in a span of time, and what was measured of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, Table, and_, func, select

from ...cluster.columns import table_of
from ...cluster.job_record import Phase
from ...cluster.jobs import JobState
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.profiles import MeasuredNodes
from ...cluster.records.scope import Scope
from ..tables import cycles, jobs, outcomes, profiles

_RUN = (
    *("job_id", "restart", "name", "user", "account", "qos", "partition", "gpus", "nodes", "cpus", "time_limit_s"),
    *("first_submit_s", "eligible_s", "started_s", "ended_s", "runtime_s", "state", "gpu_type", "interactive"),
)
_RUNNING = tuple(name for name in _RUN if name not in ("restart", "ended_s", "runtime_s", "state"))
_NODE = (*("job_id", "restart", "start_s", "end_s", "gpus", "measured_s", "process_share", "gpu_util", "memory_mib"),)


def load_runs(connection: Connection, cluster: str, since_s: float, until_s: float, of: Scope) -> OutcomeTable:
    """Return the runs *of* a choice of jobs that ended since *since_s* and began before *until_s*, oldest end first.

    Behind them stand those that ran at the last cycle, as RUNNING until then.
    """
    ended = (
        select(*(outcomes.c[name] for name in _RUN))
        .where(*_chosen(outcomes, cluster, of), outcomes.c.ended_s >= since_s)
        .where(func.coalesce(outcomes.c.started_s, outcomes.c.ended_s) < until_s)
        .order_by(outcomes.c.ended_s, outcomes.c.job_id, outcomes.c.first_submit_s, outcomes.c.restart)
    )
    return _runs(connection, ended, _RUN).joined(_running(connection, cluster, until_s, of))


def load_node_records(connection: Connection, cluster: str, since_s: float, of: Scope) -> MeasuredNodes:
    """Return what nodes measured since *since_s* of the runs of a choice of jobs."""
    query = select(*(profiles.c[name] for name in _NODE)).where(
        profiles.c.cluster == cluster, profiles.c.end_s >= int(since_s)
    )
    job_ids = ids_of(cluster, since_s, of)
    if job_ids is not None:
        query = query.where(profiles.c.job_id.in_(job_ids))
    found = connection.execute(query).all()
    columns = zip(*found, strict=True) if found else ([] for _ in _NODE)
    return table_of(MeasuredNodes, len(found), {}, {name: list(c) for name, c in zip(_NODE, columns, strict=True)})


def ids_of(cluster: str, since_s: float, of: Scope) -> CompoundSelect[Any] | None:
    """Return the query of the ids of a choice of jobs that ended since *since_s* or run; None for all."""
    if of.everybody:
        return None
    ended, running = (
        select(table.c.job_id).where(*_chosen(table, cluster, of), more)
        for table, more in ((outcomes, outcomes.c.ended_s >= since_s), (jobs, jobs.c.phase == int(Phase.RUNNING)))
    )
    return ended.union(running)


def _running(connection: Connection, cluster: str, until_s: float, of: Scope) -> OutcomeTable:
    """Return the jobs that ran at the last cycle, as runs until then."""
    seen_s = connection.scalar(select(func.max(cycles.c.at_s)).where(cycles.c.cluster == cluster))
    if seen_s is None:
        return _table((), _RUN)
    query = (
        select(jobs.c.restarts, *(jobs.c[name] for name in _RUNNING))
        .where(*_chosen(jobs, cluster, of), jobs.c.phase == int(Phase.RUNNING), jobs.c.started_s < until_s)
        .order_by(jobs.c.unit)
    )
    runs = _runs(connection, query, ("restart", *_RUNNING))
    until = np.maximum(np.full(len(runs), min(seen_s, until_s)), runs.started_s)
    state = np.full(len(runs), int(JobState.RUNNING), dtype=np.int64)
    return runs.changed(ended_s=until, runtime_s=until - runs.started_s, state=state)


def _chosen(table: Table, cluster: str, of: Scope) -> list[ColumnElement[bool]]:
    wanted = {"user": of.user, "account": of.account, "partition": of.partition, "job_id": of.job_id}
    return [and_(table.c.cluster == cluster), *(table.c[name] == value for name, value in wanted.items() if value)]


def _runs(connection: Connection, query: Select[Any], names: tuple[str, ...]) -> OutcomeTable:
    return _table(connection.execute(query).all(), names)


def _table(found: Any, names: tuple[str, ...]) -> OutcomeTable:
    columns = zip(*found, strict=True) if found else ([] for _ in names)
    return table_of(OutcomeTable, len(found), {}, {name: list(c) for name, c in zip(names, columns, strict=True)})
