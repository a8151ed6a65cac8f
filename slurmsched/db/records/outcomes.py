"""Outcomes in the database: each stored once, from any source, and read as columns."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
from sqlalchemy import Connection, select

from ...cluster.columns import FloatArray, Labels
from ...cluster.jobs import JobState
from ...cluster.records.outcomes import OutcomeTable
from ..database import insert_or
from ..tables import outcomes

_NAMES = tuple(f.name for f in fields(OutcomeTable))
_KINDS = get_type_hints(OutcomeTable)
_KEY = ("job_id", "first_submit_s", "restart")
_STEP = 500  #: ids in one query; SQLite takes some 32,000 parameters

_Key = tuple[int, int, int]


def add_outcomes(connection: Connection, cluster: str, table: OutcomeTable) -> int:
    """Write runs that are not stored yet; return the number of those added or corrected.

    A run is identified by job, restart and first submit time (in whole seconds). A run stored as OTHER, because it
    vanished between two observations, is corrected by a report with its true end.
    """
    rows = {_key(row): row for row in _rows(table)}
    there = _states(connection, cluster, [key[0] for key in rows])
    news = [
        {"cluster": cluster, **row}
        for key, row in rows.items()
        if key not in there or (there[key] == JobState.OTHER and row["state"] != JobState.OTHER)
    ]
    insert_or(connection, outcomes, news, replace=[name for name in _NAMES if name not in _KEY])
    return len(news)


def load_outcomes(
    connection: Connection, cluster: str, since_s: float | None, until_s: float | None, *, interactive: bool = False
) -> OutcomeTable:
    """Return the runs that ended in [since_s, until_s), oldest end first, in the same order from every database.

    With *interactive* these are only the runs without a batch script.
    """
    query = (
        select(*(outcomes.c[name] for name in _NAMES))
        .where(outcomes.c.cluster == cluster)
        .order_by(outcomes.c.ended_s, outcomes.c.job_id, outcomes.c.first_submit_s, outcomes.c.restart)
    )
    if since_s is not None:
        query = query.where(outcomes.c.ended_s >= since_s)
    if until_s is not None:
        query = query.where(outcomes.c.ended_s < until_s)
    if interactive:
        query = query.where(outcomes.c.interactive == 1)
    columns = list(zip(*connection.execute(query), strict=True)) or [()] * len(_NAMES)
    return OutcomeTable(**{name: _column(name, values) for name, values in zip(_NAMES, columns, strict=True)})


def load_clusters(connection: Connection) -> list[str]:
    """Return the names of the clusters that have runs, sorted."""
    return list(connection.scalars(select(outcomes.c.cluster).distinct().order_by(outcomes.c.cluster)))


def _rows(table: OutcomeTable) -> list[dict[str, Any]]:
    columns = (getattr(table, name) for name in _NAMES)
    lists = [list(column) if isinstance(column, Labels) else column.tolist() for column in columns]
    rows = [dict(zip(_NAMES, values, strict=True)) for values in zip(*lists, strict=True)]
    for row in rows:
        first_s = row["first_submit_s"]
        row["first_submit_s"] = math.floor(first_s) if math.isfinite(first_s) else 0
    return rows


def _key(row: dict[str, Any]) -> _Key:
    return row["job_id"], row["first_submit_s"], row["restart"]


def _states(connection: Connection, cluster: str, job_ids: list[int]) -> dict[_Key, int]:
    found: dict[_Key, int] = {}
    for start in range(0, len(job_ids), _STEP):
        some = sorted(set(job_ids[start : start + _STEP]))
        query = select(*(outcomes.c[name] for name in (*_KEY, "state"))).where(
            outcomes.c.cluster == cluster, outcomes.c.job_id.in_(some)
        )
        found |= {(job_id, first_s, restart): state for job_id, first_s, restart, state in connection.execute(query)}
    return found


def _column(name: str, values: tuple[Any, ...]) -> Any:
    if _KINDS[name] is Labels:
        return Labels.of(values)
    return np.array(values, dtype=np.float64 if _KINDS[name] == FloatArray else np.int64)
