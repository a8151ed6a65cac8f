"""Records of cycles in layers: a whole record now and then, and the changes since."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...cluster.columns import IntArray, Table, table_of
from ...cluster.jobs import JobTable
from ...cluster.records.promises import PromiseTable
from ...cluster.row_matching import Matching
from ...cluster.table_delta import changed, changes, normal

LAYERS = ("key", "since key", "since then")
"""Each layer holds the differences to the layers before it, so that a record is read from at most three blobs."""

_BESIDE = {"placing": "pending", "forecast": "pending", "forecast_running": "running"}
"""Tables whose row *i* belongs to row *i* of another."""

_FRESH = 3  #: the number of records on a new layer whose mean size is the smallest to expect

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "dict_size": 2**22}]
"""Filters that make the grouped bytes of numbers a sixth smaller than zlib does, in 10 ms."""


@dataclass(frozen=True)
class RecordParts:
    """A record as tables and texts by name; the tables are ``normal``."""

    tables: Mapping[str, Table]
    texts: Mapping[str, bytes]


def nothing(kinds: Mapping[str, type[Table]]) -> RecordParts:
    """Return the empty record below the first layer."""
    return RecordParts({name: normal(table_of(kind, 0, {}, {})) for name, kind in kinds.items()}, {})


@dataclass
class _Layer:
    """A layer: the record that it completes, and the sizes of the blobs stored on it so far."""

    parts: RecordParts
    body: bytes
    stored_b: list[int] = field(default_factory=list)

    @property
    def needs_new_base(self) -> bool:
        """True if the growth of the blobs on this layer has cost as much space as a new layer."""
        fresh_b = sum(self.stored_b[:_FRESH]) / _FRESH
        return sum(size_b - fresh_b for size_b in self.stored_b[_FRESH:]) > len(self.body)


@dataclass
class BlobLayers:
    """The maker of the blobs of successive records; all but a record's last blob come from an earlier record.

    A layer is replaced when its age has cost as much space as the layer itself. The total is thus at most twice the
    optimum, however much the cycles change.
    """

    kinds: Mapping[str, type[Table]]
    _below: list[_Layer] = field(default_factory=list)

    def blobs(self, parts: RecordParts) -> dict[str, bytes]:
        """Return the blobs of a record by the names of the layers."""
        while self._below and self._below[-1].needs_new_base:
            self._below.pop()
        before = self._below[-1].parts if self._below else nothing(self.kinds)
        body = _written(parts, before)
        blobs = {name: layer.body for name, layer in zip(LAYERS, self._below, strict=False)}
        blobs[LAYERS[len(self._below)]] = body
        if self._below:
            self._below[-1].stored_b.append(len(body))
        if len(self._below) < len(LAYERS) - 1:
            self._below.append(_Layer(parts, body))
        return blobs


def read_layers(blobs: Mapping[str, bytes], kinds: Mapping[str, type[Table]]) -> RecordParts:
    """Return the record that ``BlobLayers.blobs`` made into *blobs*; ``ValueError`` for other content."""
    parts = nothing(kinds)
    try:
        for name in LAYERS[: len(blobs)]:
            parts = _read(blobs[name], parts, kinds)
    except (KeyError, TypeError, lzma.LZMAError) as error:
        raise ValueError(f"no decision record: {error!r}") from error
    return parts


def _written(parts: RecordParts, before: RecordParts) -> bytes:
    matchings: dict[str, Matching] = {}
    pieces: list[tuple[str, bytes]] = []
    for name in sorted(parts.tables, key=lambda name: name in _BESIDE):
        table, earlier = parts.tables[name], before.tables[name]
        matchings[name] = matchings[_BESIDE[name]] if name in _BESIDE else _matching(table, earlier)
        pieces.append((name, changes(table, earlier, matchings[name], _pair(name, parts.tables, before.tables))))
    pieces += [(name, text) for name, text in sorted(parts.texts.items()) if before.texts.get(name) != text]
    head = json.dumps([[name, len(piece)] for name, piece in pieces], separators=(",", ":")).encode("ascii")
    raw = b"\n".join([head, b"".join(piece for _, piece in pieces)])
    return lzma.compress(raw, format=lzma.FORMAT_RAW, filters=_FILTERS)


def _read(body: bytes, before: RecordParts, kinds: Mapping[str, type[Table]]) -> RecordParts:
    head, _, rest = lzma.decompress(body, format=lzma.FORMAT_RAW, filters=_FILTERS).partition(b"\n")
    tables, texts, at = dict(before.tables), dict(before.texts), 0
    for name, length in json.loads(head):
        piece, at = rest[at : at + length], at + length
        if name in kinds:
            earlier: Any = before.tables[name]
            tables[name] = changed(kinds[name], piece, earlier, _pair(name, tables, before.tables))
        else:
            texts[name] = piece
    return RecordParts(tables, texts)


def _pair(name: str, tables: Mapping[str, Table], before: Mapping[str, Table]) -> tuple[Table, Table] | None:
    """Return the tables of jobs, now and before, that the rows of table *name* belong to; None without such."""
    return (tables[_BESIDE[name]], before[_BESIDE[name]]) if name == "placing" else None


def _matching(table: Table, before: Table) -> Matching:
    if isinstance(table, JobTable | PromiseTable) and isinstance(before, JobTable | PromiseTable):
        return Matching.of(_keys(table), _keys(before))
    return Matching.in_place(len(table), len(before))


def _keys(table: JobTable | PromiseTable) -> IntArray:
    """Return a number per row that is almost always unique."""
    if isinstance(table, JobTable):
        return table.job_id
    return np.asarray(table.job_id * 1_000_003 + (1000 * np.nan_to_num(table.asked_s)).astype(np.int64))
