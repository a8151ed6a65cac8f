"""Encode single tables as bytes, bit for bit: the format of decisions of earlier releases."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from .columns import Labels, Table
from .comment_columns import DERIVED, comment_columns
from .forecast import Forecast
from .jobs import JobTable
from .nodes import NodeTable, PartitionTable
from .records.progress import ProgressTable

T = TypeVar("T", bound=Table)

ADDED: dict[type[Table], dict[str, float | bool | str]] = {
    JobTable: {
        "deadline_s": np.inf,
        "per_node": "",
        "asked_s": np.nan,
        "asks": 0,
        "waiting_since_s": np.nan,
        **dict.fromkeys(("delayed_s", "waited_s", "away_s"), 0.0),
        "told": "",
        **dict.fromkeys(("gpu_util", "memory_util", "gpu_memory_mib", "spread_speed"), np.nan),
        **dict.fromkeys(("unstable", "measured", "shares", "per_task", "per_gpu", "given_back", "sensitive"), False),
        **dict.fromkeys(("asked_for", "share_refusal", "node_gpus", "excluded_nodes", "steered", "type_speeds"), ""),
        **dict.fromkeys(("node_request", "own_request"), ""),
        **dict.fromkeys(("used_cpus", "used_memory_mib", "noise"), np.nan),
        "sized_s": 0.0,
        "request_changed": False,
        **dict.fromkeys(("left_nodes", "size_speeds", "sample_speeds", "node_range", "ran_on"), ""),
        **dict.fromkeys(("avoided", "half_written", "own_partition"), ""),
        "share_score": 2,
        **dict.fromkeys(("steered_s", "left_s", "resized_s", "restart_cost_s"), 0.0),
        **dict.fromkeys(("own_gpus", "gpus_each", "gpu_cpus", "taken_nodes", "step_samples", "array_limit"), 0),
        "beside": 0,
        "guest_gpus": 0,
        **dict.fromkeys(("ntasks", "most_nodes"), 0),
        **dict.fromkeys(("node_memory_mib", "cpu_memory_mib"), 0.0),
        "per_job": False,
    },
    Forecast: {"floor_s": 0.0},
    NodeTable: {
        **dict.fromkeys(("cpu_load", "free_memory_mib", "down_since_s"), np.nan),
        **dict.fromkeys(("gpu_types", "down_reason", "down_by"), ""),
    },
    PartitionTable: {
        "default": False,
        "default_time_s": np.nan,
        **dict.fromkeys(("node_memory_mib", "cpu_memory_mib"), 0.0),
        **dict.fromkeys(("least_nodes", "most_nodes", "node_cpus", "default_gpu_cpus"), 0),
        **dict.fromkeys((f"default_{what}_memory_mib" for what in ("cpu", "node", "gpu")), 0.0),
        "qos": "",
        "job_factor": 1,
    },
    ProgressTable: {"settled": False, "late_fall": np.nan, "slowdown": np.nan},
}
"""Columns that stored tables of an earlier release lack, with the values to fill in."""


def stored_columns(kind: type[Table]) -> list[str]:
    """Return the columns of a table of type *kind* that records hold; the others are derived from these."""
    return [f.name for f in fields(kind) if kind is not JobTable or f.name not in DERIVED]


def derived_columns(kind: type[Table], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that records leave out, from the stored ones of a table of type *kind*."""
    if kind is not JobTable:
        return {}
    derived = comment_columns(columns["comment"])
    return {name: derived[name] for name in DERIVED}


def encode(table: Table) -> bytes:
    """Return *table* as compressed bytes: a JSON header line, then the columns one after the other."""
    header: list[dict[str, Any]] = []
    columns: list[bytes] = []
    for name in stored_columns(type(table)):
        column = getattr(table, name)
        array = column.codes if isinstance(column, Labels) else column
        raw = np.ascontiguousarray(array).tobytes()
        entry: dict[str, Any] = {"name": name, "dtype": array.dtype.str, "bytes": len(raw)}
        if isinstance(column, Labels):
            used, codes = np.unique(array, return_inverse=True)
            entry["labels"] = [column.names[code] for code in used.tolist()]
            raw = codes.astype(np.int64).tobytes()
        header.append(entry)
        columns.append(raw)
    head = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return zlib.compress(b"\n".join([head, b"".join(columns)]), level=1)


def decode(kind: type[T], blob: bytes) -> T:
    """Return the table of type *kind* that ``encode`` made into *blob*.

    Columns added since then are filled in, and derived ones are derived. Raises ``ValueError`` where the bytes are
    damaged or hold other columns.
    """
    try:
        head, _, rest = zlib.decompress(blob).partition(b"\n")
        header = json.loads(head)
        columns: dict[str, Any] = {}
        at = 0
        for entry in header:
            array = np.frombuffer(rest[at : at + entry["bytes"]], dtype=entry["dtype"])
            at += entry["bytes"]
            columns[entry["name"]] = Labels(array, tuple(entry["labels"])) if "labels" in entry else array
        length = len(next(iter(columns.values()), ()))
        added = {name: full(length, neutral) for name, neutral in ADDED.get(kind, {}).items()}
        return kind(**(added | columns | derived_columns(kind, columns)))
    except (zlib.error, KeyError, TypeError) as error:
        raise ValueError(f"these bytes hold no {kind.__name__}: {error}") from error


def full(length: int, neutral: float | bool | str) -> Any:
    """Return a column of *length* rows that are all *neutral*."""
    if isinstance(neutral, str):
        return Labels(np.zeros(length, dtype=np.int64), (neutral,))
    return np.full(length, neutral)
