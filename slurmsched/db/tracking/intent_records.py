"""The stored form of intents: requests to Slurm, each with its answer and its observed effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from sqlalchemy import Connection, or_, select

from ...cluster.actions import (
    Action,
    AskToStop,
    Avoid,
    MoveNodes,
    MovePartition,
    Resize,
    RestoreSize,
    Rightsize,
    Share,
    Steer,
)
from ...cluster.events import Value
from ..database import insert_or
from ..tables import intents


@dataclass(frozen=True, slots=True)
class Intent:
    """An action in progress: planned when made, then answered or refused, then seen, then closed."""

    job_id: int  #: NO_JOB for a move of nodes
    kind: str  #: name of the action's class
    value: Value
    """Points, until_s, partitions, nodes, types, signals, requests or GPUs, with own ones behind; or None."""
    requested_s: float
    cycle: int = 0
    answered_s: float | None = None
    refused: str | None = None  #: Slurm's own message
    seen_s: float | None = None  #: time of the first observation with the requested state
    closed_s: float | None = None  #: from then on nothing of it is left in Slurm

    @property
    def key(self) -> tuple[int, int, str]:
        """The unique key within a cluster."""
        return self.cycle, self.job_id, self.kind


def value_of(action: Action) -> Value:
    """Return the value that *action* requests; None for an action without one."""
    if isinstance(action, Share):
        return action.asked_for
    if isinstance(action, MoveNodes):
        return action.text
    if isinstance(action, MovePartition):
        return f"{action.partition} {action.own}".rstrip()
    if isinstance(action, Steer):
        return f"{action.types} {action.excluded}"
    if isinstance(action, AskToStop) and action.leaves:
        return f"{action.signal} {action.leaves}"
    if isinstance(action, Rightsize):
        return f"{action.own} {action.after}"
    if isinstance(action, RestoreSize):
        return action.own
    if isinstance(action, Avoid):
        return f"{action.changes} {action.request} {action.limits} {action.reason}"
    if isinstance(action, Resize):
        return f"{action.gpus} {action.own}{f' {action.each}' if action.each else ''}"
    rest = [getattr(action, f.name) for f in fields(action) if f.name != "job_id"]
    value = rest[0] if rest else None
    return value.item() if isinstance(value, np.generic) else value


def left_nodes(intent: Intent) -> str:
    """Return the nodes that a stop request asked a job to leave; empty for any other intent, and for one in vain."""
    asked = intent.kind == "AskToStop" and intent.refused is None
    return str(intent.value).partition(" ")[2] if asked else ""


def save_intents(connection: Connection, cluster: str, some: Sequence[Intent]) -> None:
    """Write the present state of *some* intents."""
    rows = [
        {"cluster": cluster, **{f.name: getattr(i, f.name) for f in fields(i)}, "value": json.dumps(i.value)}
        for i in some
    ]
    insert_or(connection, intents, rows, replace=("answered_s", "refused", "seen_s", "closed_s"))


def load_intents(connection: Connection, cluster: str, refused_since_s: float, asked_since_s: float) -> list[Intent]:
    """Return open intents, those refused since *refused_since_s*, and stop requests since *asked_since_s*."""
    names = [f.name for f in fields(Intent)]
    lately = intents.c.refused.is_not(None) & (intents.c.answered_s >= refused_since_s)
    stop_requests = (intents.c.kind == "AskToStop") & (intents.c.answered_s >= asked_since_s)
    query = (
        select(*(intents.c[name] for name in names))
        .where(intents.c.cluster == cluster, or_(intents.c.closed_s.is_(None), lately, stop_requests))
        .order_by(intents.c.cycle, intents.c.job_id, intents.c.kind)
    )
    rows = (dict(zip(names, row, strict=True)) for row in connection.execute(query))
    return [Intent(**{**row, "value": json.loads(row["value"])}) for row in rows]
