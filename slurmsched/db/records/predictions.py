"""Predictions in the database, one row each."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import CompoundSelect, Connection, select

from ...cluster.columns import Labels
from ...cluster.records.prediction_records import PredictionRecords, kept_table
from ..database import insert_or
from ..tables import predictions

MOST = 100_000
"""The most rows read at once, the newest."""

_NAMES = tuple(f.name for f in fields(PredictionRecords))
_CHANGES = ("slurm_start_s", "started_s", "ended_s", "state")


def save_predictions(connection: Connection, cluster: str, records: PredictionRecords) -> None:
    """Write new *records* and the outcomes of older ones; a repeat changes nothing."""
    columns = (getattr(records, name) for name in _NAMES)
    values = zip(*(list(c) if isinstance(c, Labels) else c.tolist() for c in columns), strict=True)
    rows: list[dict[str, Any]] = [{"cluster": cluster, **dict(zip(_NAMES, row, strict=True))} for row in values]
    insert_or(connection, predictions, rows, replace=_CHANGES)


def load_predictions(
    connection: Connection, cluster: str, since_s: float, job_ids: CompoundSelect[Any] | None = None
) -> PredictionRecords:
    """Return the predictions made since *since_s*, oldest first; at most ``MOST``. With *job_ids* only of these."""
    query = (
        select(*(predictions.c[name] for name in _NAMES))
        .where(predictions.c.cluster == cluster, predictions.c.made_s >= since_s)
        .order_by(predictions.c.made_s.desc(), predictions.c.job_id)
        .limit(MOST)
    )
    if job_ids is not None:
        query = query.where(predictions.c.job_id.in_(job_ids))
    found = connection.execute(query).all()[::-1]
    columns = zip(*found, strict=True) if found else ([] for _ in _NAMES)
    return kept_table(len(found), **{name: list(c) for name, c in zip(_NAMES, columns, strict=True)})
