"""What ended runs used of CPUs and memory, in the database."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import CompoundSelect, Connection, select

from ...cluster.columns import table_of
from ...cluster.records.usage import KeptUsage, UsageTable
from ..database import insert_or
from ..tables import run_use

_NAMES = ("job_id", "ended_s", "nodes", "cpus", "memory_mib", "held_memory_mib")


def add_use(connection: Connection, cluster: str, table: UsageTable) -> None:
    """Write the use of runs; a repeat changes nothing. One that needed more memory than it had counts as using all."""
    columns = (getattr(table, name).tolist() for name in _NAMES)
    rows: list[dict[str, Any]] = [
        {"cluster": cluster, **dict(zip(_NAMES, values, strict=True))} for values in zip(*columns, strict=True)
    ]
    for row in rows:
        if math.isinf(row["memory_mib"]):
            row["memory_mib"] = row["held_memory_mib"]
    insert_or(connection, run_use, rows, replace=_NAMES[2:])


def load_use(
    connection: Connection, cluster: str, since_s: float, job_ids: CompoundSelect[Any] | None = None
) -> KeptUsage:
    """Return the use of runs that ended since *since_s*; with *job_ids* only of these."""
    query = select(*(run_use.c[name] for name in _NAMES)).where(
        run_use.c.cluster == cluster, run_use.c.ended_s >= since_s
    )
    if job_ids is not None:
        query = query.where(run_use.c.job_id.in_(job_ids))
    found = connection.execute(query).all()
    columns = zip(*found, strict=True) if found else ([] for _ in _NAMES)
    return table_of(KeptUsage, len(found), {}, {name: list(c) for name, c in zip(_NAMES, columns, strict=True)})
