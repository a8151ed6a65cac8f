"""Delimited text: a file with a header and one record per line, read as columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ...cluster.columns import Labels
from .cells import Cell
from .file import TraceFile
from .trace import TraceError

_AT_ONCE = 8192  #: records; few enough for their texts to stay in the processor's cache

Records = list[list[str]]


class DelimitedRecords:
    """A header and the records below it. *quoted* allows fields in double quotes.

    Records with more or fewer fields than the header, or with a cell that cannot be read, are errors, unless *ragged*:
    then they are counted and left out.
    """

    def __init__(self, file: TraceFile, *, delimiter: str = ",", quoted: bool = True, ragged: bool = False) -> None:
        self._file = file
        self._dialect: dict[str, Any] = {
            "delimiter": delimiter,
            "quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            "strict": quoted,
        }
        self._ragged = ragged
        self.refused = 0  #: ragged records that the last reading left out
        self.unreadable: Counter[str] = Counter()  #: those left out for a cell, by its column

    def read(self, needed: Mapping[str, Cell], also: Mapping[str, Cell] | None = None) -> dict[str, Any]:
        """Read the columns *needed* and those of *also* that exist; TraceError names the place of an error."""
        with self._file.text() as text:
            records = csv.reader(text, **self._dialect)
            header = self._header(records)
            if missing := [name for name in needed if name not in header]:
                raise self._missing(missing, header)
            cells = {name: cell for name, cell in {**needed, **(also or {})}.items() if name in header}
            parts: dict[str, list[Any]] = {name: [] for name in cells}
            self.refused = done = 0
            self.unreadable = Counter()
            for some in self._chunks(records, len(header)):
                for name, column in self._converted(some, header, cells, done).items():
                    parts[name].append(column)
                done += len(some)
        return {name: _joined(parts[name] or [cell(())]) for name, cell in cells.items()}

    def line_of(self, record: int) -> int:
        """Return the line on which a record begins; records are counted from 0, without those left out."""
        with self._file.text() as text:
            records = csv.reader(text, **self._dialect)
            width = len(self._header(records))
            before = records.line_num
            for fields in records:
                if len(fields) == width:
                    if record == 0:
                        return before + 1
                    record -= 1
                before = records.line_num
        raise ValueError(f"{self._file.path} has fewer records")

    def fail(self, record: int, column: str, problem: str) -> TraceError:
        """Return the error for an invalid cell."""
        return self._file.at(self.line_of(record), problem, column)

    def _header(self, records: Iterator[list[str]]) -> list[str]:
        header = next((fields for fields in records if fields), [])
        return [name.strip() for name in header]

    def _missing(self, missing: Sequence[str], header: Sequence[str]) -> TraceError:
        problem = f"there is no column {', '.join(missing)}: the header has {', '.join(header) or 'nothing'}"
        return self._file.at(1, problem)

    def _chunks(self, records: Any, width: int) -> Iterator[Records]:
        """Yield records of the right *width*, many at once; blank lines are skipped."""
        while True:
            try:
                some = list(islice(records, _AT_ONCE))
            except csv.Error as error:
                raise self._file.at(records.line_num, f"{error}: accepted are records as RFC 4180 has them") from error
            if not some:
                return
            if {*map(len, some)} != {width}:
                some = self._even([fields for fields in some if fields], width)
            if some:
                yield some

    def _even(self, some: Records, width: int) -> Records:
        even = [fields for fields in some if len(fields) == width]
        if len(even) < len(some) and not self._ragged:
            raise self._uneven(width)
        self.refused += len(some) - len(even)
        return even

    def _uneven(self, width: int) -> TraceError:
        """Return the error for the first record that is too short or too long."""
        with self._file.text() as text:
            records = csv.reader(text, **self._dialect)
            before = 0
            for fields in records:
                if fields and len(fields) != width:
                    problem = f"the record has {len(fields)} fields: accepted are {width}, as many as the header has"
                    return self._file.at(before + 1, problem)
                before = records.line_num
        raise ValueError(f"{self._file.path} has no uneven record")

    def _converted(self, some: Records, header: list[str], cells: Mapping[str, Cell], done: int) -> dict[str, Any]:
        columns_of = zip(*some, strict=True) if some else ((),) * len(header)
        texts = dict(zip(header, columns_of, strict=True))
        columns = {}
        for name, cell in cells.items():
            try:
                columns[name] = cell(texts[name])
            except ValueError as error:
                if self._ragged:
                    return self._converted(self._readable(some, header, cells), header, cells, done)
                raise self._culprit(texts[name], name, cell, done) from error
        return columns

    def _readable(self, some: Records, header: list[str], cells: Mapping[str, Cell]) -> Records:
        """Return the records of which every cell can be read; count the others."""
        bad = [
            next((name for name in cells if not _reads(cells[name], fields[header.index(name)])), "") for fields in some
        ]
        self.unreadable.update(filter(None, bad))
        return [fields for fields, name in zip(some, bad, strict=True) if not name]

    def _culprit(self, texts: Sequence[str], name: str, cell: Cell, done: int) -> TraceError:
        for record, text in enumerate(texts):
            try:
                cell((text,))
            except ValueError as error:
                return self.fail(done + record, name, str(error))
        raise ValueError(f"column {name} of {self._file.path} fails as a whole, not in a cell")


def _reads(cell: Cell, text: str) -> bool:
    try:
        cell((text,))
    except ValueError:
        return False
    return True


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if not isinstance(parts[0], Labels):
        return np.concatenate(parts)
    numbers: dict[str, int] = {}
    codes = [part.map([numbers.setdefault(name, len(numbers)) for name in part.names], np.int64) for part in parts]
    return Labels(np.concatenate(codes), tuple(numbers))
