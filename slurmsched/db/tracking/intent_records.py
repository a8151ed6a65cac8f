"""The stored form of intents: requests to Slurm, each with its answer and its observed effect."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, or_, select

from ...cluster.actions import ACTIONS
from ...cluster.actions.intent import Intent
from ..database import insert_or
from ..tables import intents


def save_intents(connection: Connection, cluster: str, some: Sequence[Intent]) -> None:
    """Write the present state of *some* intents."""
    rows = [{"cluster": cluster, **i._asdict(), "value": json.dumps(i.value)} for i in some]
    insert_or(connection, intents, rows, replace=("answered_s", "refused", "seen_s", "closed_s"))


def load_intents(connection: Connection, cluster: str, refused_since_s: float, now_s: float) -> list[Intent]:
    """Return open intents, those refused since *refused_since_s*, and those of kinds that are remembered so long."""
    names = Intent._fields
    lately = intents.c.refused.is_not(None) & (intents.c.answered_s >= refused_since_s)
    remembered = [
        (intents.c.kind == kind.stored) & (intents.c.answered_s >= now_s - kind.remembered_s)
        for kind in ACTIONS.values()
        if kind.remembered_s
    ]
    query = (
        select(*(intents.c[name] for name in names))
        .where(intents.c.cluster == cluster, or_(intents.c.closed_s.is_(None), lately, *remembered))
        .order_by(intents.c.cycle, intents.c.job_id, intents.c.kind)
    )
    rows = (dict(zip(names, row, strict=True)) for row in connection.execute(query))
    return [Intent(**{**row, "value": json.loads(row["value"])}) for row in rows]
