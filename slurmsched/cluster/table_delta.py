"""Encode tables as differences to an earlier table, bit for bit: most of a cycle equals the cycle before.

Each row is predicted to equal the row with the same key in the earlier table, and the prediction errors are encoded:
bit patterns are subtracted, so that small changes of numbers leave zeros, and bytes of equal significance are stored
together for the compressor. A first table is compared with an empty one.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .columns import BoolArray, IntArray, Labels, Table
from .encoding import ADDED, derived_columns, full, stored_columns

T = TypeVar("T", bound=Table)
Bits = NDArray[Any]

ORDERS = ("rank",)
"""Columns that number rows; where rows come and go, the others move up and keep their order."""

SUMS = {
    "priority": tuple(f"{part}_points" for part in ("site", "age", "fairshare", "size", "partition", "qos", "tres")),
    "points": ("site_points",),
}
"""Columns that grow with others: Slurm sums the points of its plugins, and adopts the points that we set."""

BESIDE = ("site_points",)
"""Columns of the table *beside* with which columns of this table grow."""

_ROWS = "rows"
_BESIDE = "beside"  #: marks a table that was written with the one beside it; earlier releases had none
_NOT_WHOLE = {-1: np.nan, -2: np.inf, -3: -np.inf}
_SCALES, _TOGETHER = 15, 16  #: the most factors, and the fewest rows for each
_DIGITS = 11  #: decimals by which logarithms of factors are distinguished
_SPARSE = 8  #: if fewer than one row in this many changed, row numbers are written beside the bits


@dataclass(frozen=True)
class Matching:
    """For each row of a table, its row in an earlier one; -1 for a new row."""

    rows: IntArray

    @classmethod
    def of(cls, keys: IntArray, before: IntArray) -> Matching:
        """Match rows with the same key; a wrong match costs space but no correctness."""
        if not len(before):
            return cls(np.full(len(keys), -1, dtype=np.int64))
        order = np.argsort(before, kind="stable")
        at = order[np.minimum(np.searchsorted(before[order], keys), len(before) - 1)]
        return cls(np.where(before[at] == keys, at, -1))

    @classmethod
    def in_place(cls, length: int, before: int) -> Matching:
        """Match each row with the one at the same index, if there is one."""
        rows = np.arange(length, dtype=np.int64)
        return cls(np.where(rows < before, rows, -1))

    @property
    def new(self) -> BoolArray:
        """A mask of the rows without an earlier one."""
        return np.asarray(self.rows < 0)


def changes(table: Table, before: Table, matching: Matching, beside: tuple[Table, Table] | None = None) -> bytes:
    """Encode the differences of *table* to *before*, a table of the same type; both are ``normal``.

    *beside* is a table with the same rows as *table*, and its earlier version.
    """
    head, body = _Writer(), matching.rows - np.concatenate([[-1], matching.rows[:-1]]) - 1
    names = stored_columns(type(table))
    facts: dict[str, Any] = {"length": len(table)} if len(before) else {"length": len(table), "columns": names}
    head.put(_ROWS, body, facts | ({_BESIDE: 1} if beside else {}))
    now, then = _with_beside(table, beside and beside[0]), _with_beside(before, beside and beside[1])
    for name in _sums_last(names):
        column, earlier = now[name], then[name]
        if isinstance(column, Labels):
            _put_labels(head, name, column, earlier, matching)
        else:
            moved = _moved(column, earlier, matching) if name in ORDERS else None
            if moved is not None and moved.any():
                head.put(f"{name} moved", moved.astype(np.int64), {})
            predicted = _grown(_predicted(name, earlier, matching, column, moved), name, now, then, matching)
            head.put(name, column, {}, predicted)
    return head.bytes()


def changed(kind: type[T], blob: bytes, before: T, beside: tuple[Table, Table] | None = None) -> T:
    """Return the table that ``changes`` made into *blob*, given its version *before* and the tables *beside* it.

    Columns added since then are filled in, and derived ones are derived. Raises ``ValueError`` for other content.
    """
    try:
        reader = _Reader(blob)
        length = reader.entries[_ROWS]["length"]
        steps = reader.get(_ROWS, np.zeros(length, dtype=np.int64))
        matching = Matching(np.cumsum(steps + 1) - 1)
        names = set(stored_columns(kind))
        there = set(reader.entries[_ROWS].get("columns", names))
        if there - names:
            raise ValueError(f"they have the columns {', '.join(sorted(there - names))}")
        columns = {name: full(length, neutral) for name, neutral in ADDED.get(kind, {}).items() if name not in there}
        used = beside if _BESIDE in reader.entries[_ROWS] else None
        now, then = _beside(used and used[0]) | columns, _with_beside(before, used and used[1])
        for name in _sums_last([name for name in stored_columns(kind) if name in there]):
            earlier = then[name]
            if isinstance(earlier, Labels):
                now[name] = _labels(reader, name, earlier, matching)
            else:
                now[name] = reader.column(name, now, then, matching)
        return kind(**{name: now[name] for name in names}, **derived_columns(kind, now))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"these bytes hold no change of a {kind.__name__}: {error!r}") from error


def normal(table: T) -> T:
    """Return *table* with only the texts that it uses, in the order of their numbers."""
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    return replace(table, **{name: _normal(c) for name, c in columns.items() if isinstance(c, Labels)})


def _normal(labels: Labels) -> Labels:
    used, codes = np.unique(labels.codes, return_inverse=True)
    return Labels(codes.astype(np.int64), tuple(labels.names[code] for code in used.tolist()))


def _put_labels(head: _Writer, name: str, column: Labels, before: Labels, matching: Matching) -> None:
    """Encode texts by their number among the earlier and the new ones, and their order where it differs."""
    numbers = {text: number for number, text in enumerate(before.names)}
    fresh = [text for text in column.names if text not in numbers]
    numbers |= {text: len(before.names) + number for number, text in enumerate(fresh)}
    places = np.array([numbers[text] for text in column.names], dtype=np.int64)
    codes = places[column.codes] if len(column) else column.codes
    facts = {"texts": fresh} if fresh else {}
    head.put(name, codes, facts, _predicted(name, before.codes, matching, codes))
    order = _appearing(column.codes)
    head.put(f"{name} order", order - np.arange(len(order)), {})


def _labels(reader: _Reader, name: str, before: Labels, matching: Matching) -> Labels:
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
    return _beside(beside) | {f.name: getattr(table, f.name) for f in fields(table)}


def _moved(ranks: IntArray, before: IntArray, matching: Matching) -> BoolArray:
    """Return the smallest mask of rows that changed their order, or are numbered in only one of the two tables."""
    there = np.flatnonzero(~matching.new)
    earlier, now = before[matching.rows[there]], ranks[there]
    moved = np.zeros(len(ranks), dtype=np.bool_)
    moved[there[(earlier < 0) != (now < 0)]] = True
    both = (earlier >= 0) & (now >= 0)
    rows = there[both][np.argsort(earlier[both], kind="stable")]
    moved[rows] = True
    moved[rows[_longest_rising(ranks[rows])]] = False
    return moved


def _longest_rising(numbers: IntArray) -> IntArray:
    """Return the indices of a longest rising subsequence of *numbers*, by patience sorting."""
    tops: list[int] = []
    at: list[int] = []
    before = np.full(len(numbers), -1, dtype=np.int64)
    for place, number in enumerate(numbers.tolist()):
        pile = bisect_left(tops, number)
        tops[pile : pile + 1], at[pile : pile + 1] = [number], [place]
        before[place] = at[pile - 1] if pile else -1
    found: list[int] = []
    place = at[-1] if at else -1
    while place >= 0:
        found.append(place)
        place = int(before[place])
    return np.array(found[::-1], dtype=np.int64)


def _predicted(
    name: str, before: NDArray[Any], matching: Matching, new: NDArray[Any], moved: BoolArray | None = None
) -> NDArray[Any]:
    """Predict a column from *before* if nothing else changed; new rows and *moved* ones are zero."""
    if not len(matching.rows):
        return new
    there = ~matching.new if moved is None else ~(matching.new | moved)
    predicted = np.zeros(len(matching.rows), dtype=before.dtype)
    predicted[there] = before[matching.rows[there]]
    return _in_order(predicted, there, new) if name in ORDERS else predicted


def _sums_last(names: Sequence[str]) -> list[str]:
    """Return *names* with columns that are sums of others after those others."""
    return sorted(names, key=lambda name: not set(names).isdisjoint(SUMS.get(name, ())))


def _grown(
    predicted: NDArray[Any], name: str, columns: Mapping[str, Any], before: Mapping[str, Any], matching: Matching
) -> NDArray[Any]:
    """Return *predicted*, plus the growth of the columns that column *name* is the sum of."""
    parts = SUMS.get(name, ())
    if not parts or not len(matching.rows) or parts[0] not in columns:
        return predicted
    there, grown = ~matching.new, predicted.copy()
    for part in parts:
        grown[there] += columns[part][there] - before[part][matching.rows[there]]
    return grown


def _in_order(predicted: IntArray, there: BoolArray, new: IntArray) -> IntArray:
    """Renumber the rows that keep their order with the numbers that the new rows leave free."""
    numbered = np.flatnonzero(there & (predicted >= 0))
    taken = new[~there]
    free = np.setdiff1d(np.arange(len(numbered) + len(taken)), taken)[: len(numbered)]
    moved = predicted.copy()
    moved[numbered[np.argsort(predicted[numbered], kind="stable")]] = free
    return moved


def _bits(values: NDArray[Any]) -> Bits:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


class _Writer:
    """The encoder of a header and the bytes behind it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._bodies: list[bytes] = []
        self._which = np.zeros(0, dtype=np.uint8)  # of the last scaled column: the next is usually scaled alike

    def put(
        self, name: str, values: NDArray[Any], facts: dict[str, Any], predicted: NDArray[Any] | None = None
    ) -> None:
        """Encode *values* where they differ from *predicted*, else from 0; and *facts* that the reader needs."""
        if predicted is not None and predicted.dtype != values.dtype:
            rows, bodies = _differing(_bits(values))
            coded = _Coded({"type": values.dtype.str} | (rows if bodies else {"zero": 1}), bodies, self._which)
        else:
            coded = self._coded(name, values, predicted)
            if predicted is not None and coded.bodies and _is_whole(values) and _is_whole(predicted):
                whole = self._coded(name, _whole(values), _whole(predicted))
                whole.entry.update(type=values.dtype.str, whole=1)
                coded = min(coded, whole, key=_Coded.size_b)
        self._bodies += coded.bodies
        self._which = coded.which
        if entry := facts | coded.entry:
            self._entries[name] = entry

    def _coded(self, name: str, values: NDArray[Any], predicted: NDArray[Any] | None) -> _Coded:
        entry: dict[str, Any] = {}
        bodies: list[bytes] = []
        bits, which_before = _bits(values), self._which
        if predicted is not None:
            lead = _leads(name, predicted, values)
            if lead is not None:
                entry["led"] = 1
            leading = slice(None) if lead is None else np.flatnonzero(lead == np.arange(len(lead)))
            scales, which = _scales(values, predicted, leading)
            if scales:
                entry["scales"] = scales
                same = len(which) == len(which_before)
                bodies.append((which - which_before if same else which).tobytes())
                predicted, which_before = predicted * np.array([1.0, *scales])[which], which
            wanted = bits - _bits(predicted)
            if lead is not None:
                follows = lead != np.arange(len(lead))
                wanted[follows] = bits[follows] - bits[lead[follows]]
            bits = _folded(wanted)
        rows, differing = _differing(bits)
        if differing:
            entry |= {"type": values.dtype.str, **rows}
        return _Coded(entry, bodies + differing, which_before)

    def bytes(self) -> bytes:
        head = json.dumps(self._entries, separators=(",", ":")).encode("ascii")
        return b"".join([len(head).to_bytes(4, "big"), head, *self._bodies])


@dataclass(frozen=True)
class _Coded:
    """A possible encoding of a column, and the factors with which the next column is compared after it."""

    entry: dict[str, Any]
    bodies: list[bytes]
    which: NDArray[np.uint8]

    def size_b(self) -> int:
        """Return the approximate size in bytes."""
        head = json.dumps(self.entry).encode("ascii")
        return len(zlib.compress(b"".join([head, *self.bodies]), 1))


def _differing(bits: Bits) -> tuple[dict[str, int], list[bytes]]:
    """Encode the nonzero *bits*, with their rows where those are few; empty without any."""
    rows = np.flatnonzero(bits)
    if not len(rows):
        return {}, []
    if len(rows) * _SPARSE >= len(bits):
        return {}, [_shuffled(bits)]
    return {"some": len(rows)}, [_shuffled(np.diff(rows, prepend=0).astype(np.uint32)), _shuffled(bits[rows])]


class _Reader:
    """The decoder of the output of a ``_Writer``, in the same order."""

    def __init__(self, blob: bytes) -> None:
        self._at = 4 + int.from_bytes(blob[:4], "big")
        self._blob = blob
        self._which = np.zeros(0, dtype=np.uint8)
        self.entries: dict[str, dict[str, Any]] = json.loads(blob[4 : self._at])

    def column(
        self, name: str, columns: Mapping[str, Any], earlier: Mapping[str, Any], matching: Matching
    ) -> NDArray[Any]:
        """Decode a column of numbers, given the *columns* decoded so far and those of the *earlier* table."""
        length = len(matching.rows)
        moved = self.get(f"{name} moved", np.zeros(length, dtype=np.int64)) > 0 if name in ORDERS else None
        return self.codes(
            name, earlier[name], matching, lambda rows: _grown(rows, name, columns, earlier, matching), moved
        )

    def codes(
        self,
        name: str,
        before: NDArray[Any],
        matching: Matching,
        grown: Callable[[NDArray[Any]], NDArray[Any]] = lambda rows: rows,
        moved: BoolArray | None = None,
    ) -> NDArray[Any]:
        """Decode a column from its version *before*, with *grown* applied to the prediction; *moved* rows are new."""
        entry, length = self.entries.get(name, {}), len(matching.rows)
        scales = np.array([1.0, *entry.get("scales", ())])
        if len(scales) > 1:
            which = self._take(length, self._which.dtype)
            self._which = which + self._which if length == len(self._which) else which
        bits, kind = self._read(name, before.dtype, length)
        if kind != before.dtype:
            return bits.view(kind)
        bits = _unfolded(bits)
        whole = "whole" in entry
        fresh = matching.new if moved is None else matching.new | moved
        mine = np.where(fresh, bits.view(kind), np.zeros(1, dtype=kind))  # new rows have no prediction
        predicted = grown(_predicted(name, before, matching, mine, moved))
        predicted = _whole(predicted) if whole else predicted
        lead = _same_as(predicted) if "led" in entry else None
        if len(scales) > 1:
            predicted = predicted * scales[self._which]
        made = bits + _bits(predicted)
        if lead is not None:
            follows = lead != np.arange(length)
            made[follows] = bits[follows] + made[lead[follows]]
        return _fractional(made.view(np.int64)) if whole else made.view(kind)

    def get(self, name: str, zeros: IntArray) -> IntArray:
        """Decode a column whose prediction was zeros."""
        if name not in self.entries:
            return zeros
        bits, kind = self._read(name, zeros.dtype, len(zeros))
        return bits.view(kind)

    def _read(self, name: str, usual: np.dtype[Any], length: int) -> tuple[Bits, np.dtype[Any]]:
        entry = self.entries.get(name, {})
        kind = np.dtype(entry.get("type", usual))
        bits = np.zeros(length, dtype=f"u{kind.itemsize}")
        if "type" not in entry or "zero" in entry:
            return bits, kind
        rows: Any = slice(None)
        if "some" in entry:
            rows = np.cumsum(self._take(entry["some"], np.dtype(np.uint32)).astype(np.int64))
            length = entry["some"]
        bits[rows] = self._take(length, bits.dtype)
        return bits, kind

    def _take(self, count: int, kind: np.dtype[Any]) -> Bits:
        size = count * kind.itemsize
        raw = np.frombuffer(self._blob, dtype=np.uint8, count=size, offset=self._at)
        self._at += size
        return np.ascontiguousarray(raw.reshape(kind.itemsize, count).T).view(kind).reshape(count)


def _whole(values: NDArray[Any]) -> IntArray:
    """Convert to integers; NaN and infinities become -1 to -3, which times and counts do not have."""
    whole = np.nan_to_num(values, nan=-1.0, posinf=-2.0, neginf=-3.0)
    return np.asarray(np.clip(whole, -(2.0**53), 2.0**53).astype(np.int64))


def _fractional(whole: IntArray) -> NDArray[np.float64]:
    """Invert ``_whole``."""
    values = whole.astype(np.float64)
    for code, value in _NOT_WHOLE.items():
        values[whole == code] = value
    return values


def _is_whole(values: NDArray[Any]) -> bool:
    """Return True if ``_whole`` is lossless for *values*."""
    return values.dtype == np.float64 and bool((_bits(_fractional(_whole(values))) == _bits(values)).all())


def _leads(name: str, predicted: NDArray[Any], values: NDArray[Any]) -> IntArray | None:
    """Return for each row the first with the same *predicted* value; None where such rows did not change alike."""
    off = np.flatnonzero(_bits(values) != _bits(predicted))
    if not len(off) or name in ORDERS:
        return None
    lead = _same_as(predicted)
    there = _bits(values)
    return lead if np.count_nonzero(there != there[lead]) < len(off) // 2 else None


def _same_as(predicted: NDArray[Any]) -> IntArray:
    _, first, inverse = np.unique(_bits(predicted), return_index=True, return_inverse=True)
    return np.asarray(first[inverse], dtype=np.int64)


def _scales(values: NDArray[Any], predicted: NDArray[Any], leading: Any) -> tuple[list[float], NDArray[np.uint8]]:
    """Return common factors of *values* to *predicted*, and for each row the number of its factor, 0 for none.

    A forecast is an average of earlier runs times a factor shared by all jobs with as much history: each run that ends
    changes all of them a little.
    """
    which = np.zeros(len(values), dtype=np.uint8)
    if values.dtype != np.float64:
        return [], which
    with np.errstate(all="ignore"):
        ratio = values / predicted
    some = np.zeros(len(values), dtype=np.bool_)
    some[leading] = True
    rows = np.flatnonzero(some & np.isfinite(ratio) & (ratio != 1.0) & (ratio > 0))
    _, first, inverse, counts = np.unique(
        np.round(np.log(ratio[rows]), _DIGITS), return_index=True, return_inverse=True, return_counts=True
    )
    often = np.flatnonzero(counts >= _TOGETHER)
    often = np.sort(first[often[np.argsort(-counts[often], kind="stable")][:_SCALES]])
    for number, place in enumerate(often.tolist(), start=1):
        which[rows[inverse == inverse[place]]] = number
    return ratio[rows[often]].tolist(), which


def _folded(differences: Bits) -> Bits:
    """Map small differences of either sign to small numbers (zigzag encoding)."""
    if differences.dtype != np.uint64:
        return differences
    signed = differences.view(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def _unfolded(numbers: Bits) -> Bits:
    if numbers.dtype != np.uint64:
        return numbers
    return (numbers >> np.uint64(1)) ^ (np.uint64(0) - (numbers & np.uint64(1)))


def _shuffled(bits: Bits) -> bytes:
    """Return the bytes of all numbers, grouped by significance."""
    return np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), -1).T.tobytes()
