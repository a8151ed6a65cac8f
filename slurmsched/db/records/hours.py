"""Sums of whole hours in the database: what comes later of the same hour is added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ...cluster.columns import table_of
from ...cluster.records.hours import HourTable
from ..database import insert_or
from ..tables import hours

_NAMES = ("from_s", "what", "account", "user", "value")


class Counted(NamedTuple):
    """One sum: the hour that it is of, what was counted, and whose it is."""

    from_s: float
    what: str
    account: str = ""
    user: str = ""


def add_hours(connection: Connection, cluster: str, news: Mapping[Counted, float]) -> None:
    """Add *news* to the sums that are stored."""
    rows: list[dict[str, Any]] = [
        {"cluster": cluster, **counted._asdict(), "value": value} for counted, value in news.items()
    ]
    insert_or(connection, hours, rows, add=("value",))


def load_hours(connection: Connection, cluster: str, since_s: float, until_s: float) -> HourTable:
    """Return the sums of hours that began in [since_s, until_s), oldest first."""
    query = (
        select(*(hours.c[name] for name in _NAMES))
        .where(hours.c.cluster == cluster, hours.c.from_s >= since_s, hours.c.from_s < until_s)
        .order_by(*(hours.c[name] for name in _NAMES[:-1]))
    )
    found = connection.execute(query).all()
    columns = zip(*found, strict=True) if found else ([] for _ in _NAMES)
    return table_of(HourTable, len(found), {}, {name: list(c) for name, c in zip(_NAMES, columns, strict=True)})
