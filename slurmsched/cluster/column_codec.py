"""Columns as bytes: the differences to predicted columns, for the compressor.

Bit patterns are subtracted, so that small changes of numbers leave zeros, and bytes of equal significance are stored
together.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import BoolArray, IntArray
from .row_matching import ORDERS, Matching, predicted_column, with_growth

Bits = NDArray[Any]

_NOT_WHOLE = {-1: np.nan, -2: np.inf, -3: -np.inf}
_SCALES, _TOGETHER = 15, 16  #: the most factors, and the fewest rows for each
_DIGITS = 11  #: decimals by which logarithms of factors are distinguished
_SPARSE = 8  #: if fewer than one row in this many changed, row numbers are written beside the bits


def _bits(values: NDArray[Any]) -> Bits:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


class ColumnWriter:
    """The encoder of a header and the bytes behind it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._bodies: list[bytes] = []
        self._which = np.zeros(0, dtype=np.uint8)  # of the last scaled column: the next is usually scaled alike

    def put(
        self, name: str, values: NDArray[Any], facts: dict[str, Any], predicted: NDArray[Any] | None = None
    ) -> None:
        """Encode *values* where they differ from *predicted*, else from 0; and *facts* that the reader needs."""
        coded = self._shortest(name, values, predicted)
        self._bodies += coded.bodies
        self._which = coded.which
        if entry := facts | coded.entry:
            self._entries[name] = entry

    def _shortest(self, name: str, values: NDArray[Any], predicted: NDArray[Any] | None) -> _Coded:
        if predicted is None:
            return self._coded(name, values, None)
        if predicted.dtype != values.dtype:
            rows, bodies = _differing(_bits(values))
            return _Coded({"type": values.dtype.str} | (rows if bodies else {"zero": 1}), bodies, self._which)
        if values is predicted or values.tobytes() == predicted.tobytes():  # as most columns are
            return _Coded({}, [], self._which)
        coded = self._coded(name, values, predicted)
        if not coded.bodies or (whole_values := _lossless_whole(values)) is None:
            return coded
        if (whole_predicted := _lossless_whole(predicted)) is None:
            return coded
        whole = self._coded(name, whole_values, whole_predicted)
        whole.entry.update(type=values.dtype.str, whole=1)
        return min(coded, whole, key=_Coded.size_b)

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
        """Return the header with its length, and the bytes of all columns."""
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


class ColumnReader:
    """The decoder of the output of a ``ColumnWriter``, in the same order."""

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
            name, earlier[name], matching, lambda rows: with_growth(rows, name, columns, earlier, matching), moved
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
        predicted = grown(predicted_column(name, before, matching, mine, moved))
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


def _lossless_whole(values: NDArray[Any]) -> IntArray | None:
    """Return *values* by ``_whole``; None where that is not lossless."""
    if values.dtype != np.float64:
        return None
    whole = _whole(values)
    return whole if _fractional(whole).tobytes() == values.tobytes() else None


def _leads(name: str, predicted: NDArray[Any], values: NDArray[Any]) -> IntArray | None:
    """Return for each row the first with the same *predicted* value; None where such rows did not change alike."""
    off = np.flatnonzero(_bits(values) != _bits(predicted))
    if len(off) < 2 or name in ORDERS:
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
    if values.dtype != np.float64 or len(values) < _TOGETHER:
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
