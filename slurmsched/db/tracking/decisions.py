"""Decision records: all inputs and results of a decision, so that it can be replayed and compared."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, delete, func, select

from ...cluster.actions import ACTIONS, Action, NodeChange, Refusal
from ...cluster.columns import Table
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.limits import LimitTable
from ...cluster.nodes import AccountTable, NodeTable, PartitionTable, QosTable
from ...cluster.plan import Placing, Plan
from ...cluster.records.progress import ProgressTable
from ...cluster.records.promises import PromiseTable
from ...cluster.records.solved_starts import SolvedStarts
from ...cluster.reservations import ReservationTable
from ...cluster.state import View
from ...cluster.table_delta import normal
from ...cluster.topology import Topology, UnitTable
from ...errors import SchemaMismatch
from ..database import insert_or
from ..tables import blobs, cycle_blobs, cycles, intents
from .decision_layers import RecordParts, read_layers

_VIEW: dict[str, type[Table]] = {
    "pending": JobTable,
    "running": JobTable,
    "nodes": NodeTable,
    "partitions": PartitionTable,
    "qos": QosTable,
    "forecast": Forecast,
    "forecast_running": Forecast,
}


#: The type of each table of a record.
TABLES: dict[str, type[Table]] = _VIEW | {
    "placing": Placing,
    "promises": PromiseTable,
    "promised": PromiseTable,
    "accounts": AccountTable,
    "solver": SolvedStarts,
    "progress": ProgressTable,
    "limits": LimitTable,
    "reservations": ReservationTable,
    "topology": UnitTable,
}

#: The key of the probe, in place of a digest.
_PROBE = "probe"


@dataclass(frozen=True, eq=False)
class DecisionRecord:
    """A cycle: the view, the plan, the settings and the models."""

    number: int
    now_s: float
    mode: str
    view: View
    plan: Plan
    settings_json: str
    models_digest: str
    sentence: str


def layers_of(record: DecisionRecord) -> RecordParts:
    """Split the record into parts that can be compared with those of another."""
    plan = record.plan
    tables: dict[str, Table] = {name: getattr(record.view, name) for name in _VIEW}
    tables |= {"placing": plan.jobs, "promises": record.view.promises, "promised": plan.promises}
    tables |= {"accounts": record.view.accounts, "solver": record.view.solved, "progress": record.view.progress}
    tables |= {"limits": record.view.limits, "reservations": record.view.reservations}
    tables["topology"] = record.view.topology.table
    texts = {
        "actions": _lines(_action_row(action) for action in plan.actions),
        "refusals": _lines([_action_row(r.action), r.rule, r.detail] for r in plan.refusals),
        "settings": _lines([record.settings_json]),
        "solved": _lines([plan.solved]),
        "shadow": _lines([list(plan.shadow)]),
    }
    return RecordParts({name: normal(table) for name, table in tables.items()}, texts)


def record_of_parts(parts: RecordParts, *, now_s: float, **rest: Any) -> DecisionRecord:
    """Return the record that ``layers_of`` split into *parts*; ``ValueError`` for other content."""
    try:
        tables: Any = parts.tables
        stored = {name: tables[name] for name in (*_VIEW, "promises", "accounts", "progress", "limits", "reservations")}
        topology = Topology.of_table(tables["topology"])
        view = View(now_s=now_s, **stored, solved=tables["solver"], topology=topology)
        actions = tuple(_action(row) for row in _rows(parts.texts["actions"]))
        refusals = tuple(Refusal(_action(row), *rest) for row, *rest in _rows(parts.texts["refusals"]))
        (solved,) = _rows(parts.texts["solved"])
        (shadow,) = _rows(parts.texts["shadow"])
        plan = Plan(tables["placing"], actions, refusals, tables["promised"], solved, tuple(shadow))
        (settings,) = _rows(parts.texts["settings"])
        return DecisionRecord(now_s=now_s, view=view, plan=plan, settings_json=settings, **rest)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no decision record: {error!r}") from error


def restored(parts: dict[str, bytes], **rest: Any) -> DecisionRecord:
    """Return the record in the layers of ``BlobLayers``; ``ValueError`` for other content."""
    return record_of_parts(read_layers(parts, TABLES), **rest)


def _action_row(action: Action) -> list[Any]:
    return [action.stored, *(getattr(action, f.name) for f in fields(action))]


def _action(row: list[Any]) -> Action:
    return ACTIONS[row[0]](*row[1:])


def _lines(rows: Iterable[Any]) -> bytes:
    """Encode *rows* as JSON, each on a line of its own."""
    return "\n".join(map(_COMPACT.encode, rows)).encode("ascii")


def _rows(text: bytes) -> list[Any]:
    return [json.loads(line) for line in text.split(b"\n")] if text else []


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, NodeChange):
        return astuple(value)
    raise TypeError(f"{value!r} does not belong in an action")


_COMPACT = json.JSONEncoder(separators=(",", ":"), default=_plain)  # json.dumps makes one for each of many rows


def save_decision(connection: Connection, cluster: str, record: DecisionRecord, parts: dict[str, bytes]) -> None:
    """Write one record, made of *parts*; a stored blob is not sent again."""
    here = (cycle_blobs.c.cluster == cluster, cycle_blobs.c.number == record.number)
    connection.execute(delete(cycle_blobs).where(*here))  # another daemon may have used the number
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in parts.items()}
    there = set(connection.scalars(select(blobs.c.digest).where(blobs.c.digest.in_(set(digests.values())))))
    bodies = {digest: parts[name] for name, digest in digests.items() if digest not in there}
    insert_or(connection, blobs, [{"digest": digest, "body": body} for digest, body in bodies.items()])
    row = {"cluster": cluster, "number": record.number, "at_s": record.now_s, "mode": record.mode}
    row |= {"models_digest": record.models_digest, "sentence": record.sentence}
    insert_or(connection, cycles, [row], replace=("at_s", "mode", "models_digest", "sentence"))
    links = [
        {"cluster": cluster, "number": record.number, "part": name, "digest": digest}
        for name, digest in digests.items()
    ]
    insert_or(connection, cycle_blobs, links)


def save_probe(connection: Connection, size_b: int) -> None:
    """Write a blob of *size_b* random bytes that belongs to no record."""
    insert_or(connection, blobs, [{"digest": _PROBE, "body": os.urandom(size_b)}], replace=("body",))


def remove_probe(connection: Connection) -> None:
    """Delete the blob that ``save_probe`` wrote."""
    connection.execute(delete(blobs).where(blobs.c.digest == _PROBE))


def load_decision(connection: Connection, number: int | None, cluster: str | None) -> DecisionRecord | None:
    """Return cycle *number* or the newest, of *cluster* or of the one that decided last; None if there is none."""
    query = _newest_first(select(cycles), cluster).limit(1)
    found = connection.execute(query if number is None else query.where(cycles.c.number == number)).one_or_none()
    if found is None:
        return None
    links = (
        select(cycle_blobs.c.part, blobs.c.body)
        .join(blobs, blobs.c.digest == cycle_blobs.c.digest)
        .where(cycle_blobs.c.cluster == found.cluster, cycle_blobs.c.number == found.number)
    )
    parts = {part: bytes(body) for part, body in connection.execute(links)}
    try:
        return restored(
            parts,
            number=found.number,
            now_s=found.at_s,
            mode=found.mode,
            models_digest=found.models_digest,
            sentence=found.sentence,
        )
    except ValueError as error:
        raise SchemaMismatch(
            f"cycle {found.number} was stored by another version of slurmsched or is damaged ({error}): "
            "replay it with the version that wrote it"
        ) from error


def decision_numbers(connection: Connection, cluster: str | None) -> list[int]:
    """Return the numbers of the stored cycles, oldest first."""
    return list(connection.scalars(_newest_first(select(cycles.c.number), cluster)))[::-1]


def last_number(connection: Connection, cluster: str) -> int:
    """Return the highest cycle number so far, 0 for none; also of cycles that left only intents (killed early)."""
    numbers = (
        select(func.max(number)).where(owner == cluster)
        for number, owner in ((cycles.c.number, cycles.c.cluster), (intents.c.cycle, intents.c.cluster))
    )
    return max(int(connection.execute(query).scalar_one() or 0) for query in numbers)


def _newest_first(query: Select[Any], cluster: str | None) -> Select[Any]:
    query = query.order_by(cycles.c.at_s.desc(), cycles.c.number.desc())
    return query if cluster is None else query.where(cycles.c.cluster == cluster)
