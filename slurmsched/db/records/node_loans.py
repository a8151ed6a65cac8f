"""Lent nodes in the database, so that partitions get their own back even after the daemon was killed."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from ...cluster.records.node_loans import LentNodes
from ...cluster.text.hostlist import expand, fold
from ..database import insert_or
from ..tables import lent


def save_lent(connection: Connection, cluster: str, some: Iterable[LentNodes]) -> None:
    """Replace all stored loans by *some*."""
    connection.execute(delete(lent).where(lent.c.cluster == cluster))
    rows = [
        {"cluster": cluster, "partition": one.partition, "own": fold(one.own), "given": fold(one.given)} for one in some
    ]
    insert_or(connection, lent, rows)


def load_lent(connection: Connection, cluster: str) -> tuple[LentNodes, ...]:
    """Return all stored loans, by partition."""
    query = select(lent.c.partition, lent.c.own, lent.c.given).where(lent.c.cluster == cluster)
    found = connection.execute(query.order_by(lent.c.partition))
    return tuple(LentNodes(name, expand(own), expand(given)) for name, own, given in found)
