"""Promises in the database: one row per request for a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
from sqlalchemy import Connection, or_, select

from ...cluster.columns import IntArray, Labels
from ...cluster.records.promises import PromiseState, PromiseTable, promise_table
from ..database import insert_or
from ..tables import promises

Key = tuple[int, float]
Row = dict[str, Any]

_NAMES = tuple(f.name for f in fields(PromiseTable) if f.name not in ("start_by_s", "planned_s"))
_CHANGES = tuple(name for name in _NAMES if name not in ("job_id", "asked_s"))


def rows_of(table: PromiseTable) -> Iterator[tuple[Key, Row]]:
    """Yield each row of *table* in its stored form, with its key: job and time of the request."""
    columns = (getattr(table, name) for name in _NAMES)
    for values in zip(*(list(c) if isinstance(c, Labels) else c.tolist() for c in columns), strict=True):
        row = dict(zip(_NAMES, values, strict=True))
        yield (row["job_id"], row["asked_s"]), row


def changed_rows(before: PromiseTable, now: PromiseTable) -> IntArray:
    """Return the indices of rows of *now* that are new or differ from *before* in a stored column."""
    at = _places_in(before, now)
    differs = at < 0
    common = np.flatnonzero(~differs)
    for name in _CHANGES if len(common) else ():
        new, old = getattr(now, name), getattr(before, name)
        if isinstance(new, Labels):
            texts = Labels.of([*new.names, *old.names]).codes
            differs[common] |= texts[new.codes[common]] != texts[len(new.names) + old.codes[at[common]]]
        else:
            same = (new[common] == old[at[common]]) | (np.isnan(new[common]) & np.isnan(old[at[common]]))
            differs[common] |= ~same
    return np.flatnonzero(differs)


def _places_in(before: PromiseTable, now: PromiseTable) -> IntArray:
    """Return the row of *before* with the same key as each row of *now*, -1 where there is none."""
    same = min(len(before), len(now))  # requests are added at the end, so that most rows are where they were
    if (before.job_id[:same] == now.job_id[:same]).all() and (before.asked_s[:same] == now.asked_s[:same]).all():
        at = np.arange(len(now))
        if len(now) <= same or not np.isin(now.asked_s[same:], before.asked_s).any():
            return np.where(at < same, at, -1)
    places = dict(zip(_keys(before), range(len(before)), strict=True))
    return np.array([places.get(key, -1) for key in _keys(now)], dtype=np.int64)


def _keys(table: PromiseTable) -> Iterator[Key]:
    return zip(table.job_id.tolist(), table.asked_s.tolist(), strict=True)


def save_promises(connection: Connection, cluster: str, rows: Iterable[Row]) -> None:
    """Write the present state of *rows*; a repeat changes nothing."""
    insert_or(connection, promises, [{"cluster": cluster, **row} for row in rows], replace=_CHANGES)


def load_promises(connection: Connection, cluster: str, since_s: float) -> PromiseTable:
    """Return the open promises and all requests since *since_s*, oldest first."""
    query = (
        select(*(promises.c[name] for name in _NAMES))
        .where(promises.c.cluster == cluster, or_(promises.c.state == PromiseState.OPEN, promises.c.asked_s >= since_s))
        .order_by(promises.c.asked_s, promises.c.job_id)
    )
    found = connection.execute(query).all()
    columns = zip(*found, strict=True) if found else ([] for _ in _NAMES)
    return promise_table(len(found), **{name: list(c) for name, c in zip(_NAMES, columns, strict=True)})
