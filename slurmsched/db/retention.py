"""Delete old records, a bounded number at a time so that the lock is held only briefly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, and_, delete, exists, func, select, tuple_

from ..cluster.records.promises import PromiseState
from .tables import (
    blobs,
    cycle_blobs,
    cycles,
    faults,
    hours,
    instabilities,
    intents,
    job_events,
    outcomes,
    predictions,
    profiles,
    promises,
    run_use,
)

_CYCLES = 1_000
_ROWS = 20_000
_PREDICTIONS_S = 60 * 86_400.0  #: no reader looks back farther than a month


@dataclass(frozen=True)
class Pruned:
    """The numbers of deleted rows; *more* if old ones are left for the next call."""

    cycles: int
    outcomes: int
    story: int
    intents: int
    profiles: int
    promises: int
    more: bool


def prune(connection: Connection, now_s: float, keep_decisions_s: float, keep_outcomes_s: float) -> Pruned:
    """Delete cycles and closed intents older than *keep_decisions_s*, other records older than *keep_outcomes_s*."""
    decided_s, ended_s = now_s - keep_decisions_s, now_s - keep_outcomes_s
    old_cycles = select(cycles.c.cluster, cycles.c.number).where(cycles.c.at_s < decided_s)
    gone = connection.execute(old_cycles.order_by(cycles.c.at_s).limit(_CYCLES)).all()
    for cluster, number in gone:
        for table in (cycle_blobs, cycles):
            connection.execute(delete(table).where(table.c.cluster == cluster, table.c.number == number))
    if gone:
        unused = ~exists().where(cycle_blobs.c.digest == blobs.c.digest)
        connection.execute(delete(blobs).where(unused))
    runs = _delete_some(connection, outcomes, outcomes.c.ended_s < ended_s)
    events = _delete_some(connection, job_events, job_events.c.at_s < ended_s)
    closed_intents = _delete_some(connection, intents, intents.c.closed_s < decided_s)
    measured = _delete_some(connection, profiles, profiles.c.end_s < ended_s)
    faulty = _delete_some(connection, faults, faults.c.end_s < ended_s)
    unstable = _delete_some(connection, instabilities, instabilities.c.end_s < ended_s)
    over = and_(promises.c.state != PromiseState.OPEN, promises.c.asked_s < ended_s)
    old_promises = _delete_some(connection, promises, over)
    old_predictions = _delete_some(connection, predictions, predictions.c.made_s < max(ended_s, now_s - _PREDICTIONS_S))
    old_use = _delete_some(connection, run_use, run_use.c.ended_s < ended_s)
    old_hours = _delete_some(connection, hours, hours.c.from_s < ended_s)
    more = len(gone) == _CYCLES or _ROWS in (
        runs,
        events,
        closed_intents,
        measured,
        faulty,
        unstable,
        old_promises,
        old_predictions,
        old_hours,
        old_use,
    )
    return Pruned(len(gone), runs, events, closed_intents, measured, old_promises, more)


def _delete_some(connection: Connection, table: Table, old: Any) -> int:
    key = list(table.primary_key)
    some = select(*key).where(old).limit(_ROWS).subquery()
    count = connection.execute(select(func.count()).select_from(some)).scalar_one()
    if count:
        connection.execute(delete(table).where(tuple_(*key).in_(select(*some.c))))
    return int(count)
