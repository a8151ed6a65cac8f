"""Encode tables as differences to an earlier table, bit for bit: most of a cycle equals the cycle before.

Each row is predicted to equal the row with the same key in the earlier table, and the prediction errors are encoded:
bit patterns are subtracted, so that small changes of numbers leave zeros, and bytes of equal significance are stored
together for the compressor. A first table is compared with an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from .column_codec import ColumnReader, ColumnWriter
from .columns import IntArray, Labels, Table, declared
from .jobs import DERIVED, JobTable, comment_columns
from .row_matching import ORDERS, Matching, moved_rows, predicted_column, sums_last, with_growth

T = TypeVar("T", bound=Table)

BESIDE = ("site_points",)
"""Columns of the table *beside* with which columns of this table grow."""

_ROWS = "rows"


def changes(table: Table, before: Table, matching: Matching, beside: tuple[Table, Table] | None = None) -> bytes:
    """Encode the differences of *table* to *before*, a table of the same type; both are ``normal``.

    *beside* is a table with the same rows as *table*, and its earlier version.
    """
    head, body = ColumnWriter(), matching.rows - np.concatenate([[-1], matching.rows[:-1]]) - 1
    names = list(stored_columns(type(table)))
    facts: dict[str, Any] = {"length": len(table)} if len(before) else {"length": len(table), "columns": names}
    head.put(_ROWS, body, facts)
    if not len(table):
        return head.bytes()
    now, then = _with_beside(table, beside and beside[0]), _with_beside(before, beside and beside[1])
    for name in sums_last(names):
        column, earlier = now[name], then[name]
        if isinstance(column, Labels):
            _put_labels(head, name, column, earlier, matching)
        else:
            moved = moved_rows(column, earlier, matching) if name in ORDERS else None
            if moved is not None and moved.any():
                head.put(f"{name} moved", moved.astype(np.int64), {})
            predicted = with_growth(predicted_column(name, earlier, matching, column, moved), name, now, then, matching)
            head.put(name, column, {}, predicted)
    return head.bytes()


def changed(kind: type[T], blob: bytes, before: T, beside: tuple[Table, Table] | None = None) -> T:
    """Return the table that ``changes`` made into *blob*, given its version *before* and the tables *beside* it.

    Raises ``ValueError`` for other content, also for other columns.
    """
    try:
        reader = ColumnReader(blob)
        length = reader.entries[_ROWS]["length"]
        steps = reader.get(_ROWS, np.zeros(length, dtype=np.int64))
        matching = Matching(np.cumsum(steps + 1) - 1)
        names = stored_columns(kind)
        if others := set(names) ^ set(reader.entries[_ROWS].get("columns", names)):
            raise ValueError(f"they have the columns of another version: {', '.join(sorted(others))}")
        now, then = _beside(beside and beside[0]), _with_beside(before, beside and beside[1])
        for name in sums_last(list(names)):
            earlier = then[name]
            if isinstance(earlier, Labels):
                now[name] = _labels(reader, name, earlier, matching)
            else:
                now[name] = reader.column(name, now, then, matching)
        return kind(**{column: now[name] for name, column in names.items()}, **_derived(kind, now))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"these bytes hold no change of a {kind.__name__}: {error!r}") from error


def stored_columns(kind: type[Table]) -> Mapping[str, str]:
    """Return the columns of a table of type *kind* that records hold, by their names there; the others are derived."""
    return _stored_columns(kind)  # type: ignore[arg-type]  # a class can be hashed


@cache
def _stored_columns(kind: Any) -> Mapping[str, str]:
    about = declared(kind)
    names = [f.name for f in fields(kind) if kind is not JobTable or f.name not in DERIVED]
    return {(about[name].stored if name in about else "") or name: name for name in names}


def _derived(kind: type[Table], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that records leave out, from the stored ones of a table of type *kind*."""
    if kind is not JobTable:
        return {}
    derived = comment_columns(columns["comment"])
    return {name: derived[name] for name in DERIVED}


def normal(table: T) -> T:
    """Return *table* with only the texts that it uses, each once, in the order of their numbers."""
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    return replace(table, **{name: _normal(c) for name, c in columns.items() if isinstance(c, Labels)})


def _normal(labels: Labels) -> Labels:
    if not len(labels):
        return Labels(labels.codes.astype(np.int64), ())
    if len(set(labels.names)) < len(labels.names):
        labels = labels.renamed(labels.names)
    used = np.bincount(labels.codes, minlength=len(labels.names)) > 0
    if used.all():
        return Labels(labels.codes.astype(np.int64), labels.names)
    places = np.cumsum(used) - 1
    return Labels(places[labels.codes], tuple(labels.names[code] for code in np.flatnonzero(used).tolist()))


def _put_labels(head: ColumnWriter, name: str, column: Labels, before: Labels, matching: Matching) -> None:
    """Encode texts by their number among the earlier and the new ones, and their order where it differs."""
    numbers = {text: number for number, text in enumerate(before.names)}
    fresh = [text for text in column.names if text not in numbers]
    numbers |= {text: len(before.names) + number for number, text in enumerate(fresh)}
    places = np.array([numbers[text] for text in column.names], dtype=np.int64)
    codes = places[column.codes] if len(column) else column.codes
    facts = {"texts": fresh} if fresh else {}
    head.put(name, codes, facts, predicted_column(name, before.codes, matching, codes))
    if len(column.names) > 1:
        order = _appearing(column.codes)
        head.put(f"{name} order", order - np.arange(len(order)), {})


def _labels(reader: ColumnReader, name: str, before: Labels, matching: Matching) -> Labels:
    texts = (*before.names, *reader.entries.get(name, {}).get("texts", ()))
    codes = reader.codes(name, before.codes, matching)
    appearing = _appearing(codes)
    order = reader.get(f"{name} order", np.zeros(len(appearing), dtype=np.int64)) + np.arange(len(appearing))
    names = np.empty(len(appearing), dtype=np.int64)
    names[order] = appearing  # in the order of their earlier numbers
    places = np.zeros(len(texts), dtype=np.int64)
    places[names] = np.arange(len(names))
    return Labels(places[codes] if len(codes) else codes, tuple(texts[number] for number in names.tolist()))


def _appearing(codes: IntArray) -> IntArray:
    """Return the distinct *codes* in the order of their first appearance."""
    distinct, first = np.unique(codes, return_index=True)
    return np.asarray(distinct[np.argsort(first)], dtype=np.int64)


def _beside(table: Table | None) -> dict[str, Any]:
    return {name: getattr(table, name) for name in BESIDE} if table is not None else {}


def _with_beside(table: Table, beside: Table | None) -> dict[str, Any]:
    return _beside(beside) | {name: getattr(table, column) for name, column in stored_columns(type(table)).items()}
