"""Tables as columns: arrays with one row per thing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Rows = IntArray | BoolArray | slice

T = TypeVar("T", bound="Table")

MOST_SOURCES = 4
"""The most tables that one waits for with its columns; a longer chain of rows of rows would never end."""


@dataclass(frozen=True, eq=False)
class Labels:
    """A text column: each distinct text is stored once, and rows hold its number."""

    codes: IntArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Build the column of *texts*, numbered in order of first appearance."""
        rows = texts if isinstance(texts, list | tuple) else list(texts)
        names = tuple(dict.fromkeys(rows))
        numbers = dict(zip(names, range(len(names)), strict=True))
        return cls(np.fromiter(map(numbers.__getitem__, rows), dtype=np.int64, count=len(rows)), names)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int | np.integer[Any]) -> str:
        return self.names[int(self.codes[row])]

    def __iter__(self) -> Iterator[str]:
        names = self.names
        return (names[code] for code in self.codes.tolist())

    def renamed(self, names: Iterable[str]) -> Labels:
        """Return the column with its texts replaced by *names* (aligned with ``names``); equal ones are merged."""
        other = Labels.of(names)
        return Labels(other.codes[self.codes] if len(self) else self.codes, other.names)

    def take(self, rows: Rows) -> Labels:
        """Return the column of *rows* only; the distinct texts are shared."""
        return Labels(self.codes[rows], self.names)

    def with_used_names(self) -> Labels:
        """Return the same texts, where ``names`` has those of some row alone."""
        used, codes = numbered(self.codes, len(self.names))
        return Labels(codes, tuple(self.names[code] for code in used.tolist()))

    def joined(self, other: Labels) -> Labels:
        """Return the rows of this column, then those of *other*."""
        if self.names == other.names:  # so it is for parts of one table, which are joined at each decision
            return Labels(np.concatenate([self.codes, other.codes]), self.names)
        both = Labels.of([*self.names, *other.names])
        count = len(self.names)
        return Labels(np.concatenate([both.codes[:count][self.codes], both.codes[count:][other.codes]]), both.names)

    def map(self, values: Sequence[Any], dtype: Any) -> NDArray[Any]:
        """Return an array with one value per row, given *values* per distinct text (aligned with ``names``)."""
        if len(values) < 2 or all(value == values[0] for value in values):
            return np.full(len(self), values[0] if len(values) else 0, dtype=dtype)
        return np.array(values, dtype=dtype)[self.codes]

    def nonempty(self) -> BoolArray:
        """Select the rows whose text is not empty."""
        found: BoolArray = self.map([bool(text) for text in self.names], np.bool_)
        return found

    def equals(self, other: Labels) -> bool:
        """Return True if both columns hold the same texts, row by row."""
        return len(self) == len(other) and list(self) == list(other)


def numbered(codes: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct *codes*, which are below *size*, sorted, and which of them each is, as ``np.unique`` does.

    It sorts nothing where there are not many more possible codes than rows.
    """
    if size > len(codes) + 4096:
        found, which = np.unique(codes, return_inverse=True)
        return found, which.reshape(-1)
    seen = np.zeros(size, dtype=np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]


def places_of(wanted: IntArray, values: IntArray, first: bool = False) -> IntArray:
    """Return where each of *wanted* stands in *values*; -1 where it does not.

    If it stands at several places, it is the last one, or the *first*.
    """
    if not len(values) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    at = np.searchsorted(ordered, wanted) if first else np.searchsorted(ordered, wanted, side="right") - 1
    places = order[np.minimum(at, len(order) - 1)]  # one that stands nowhere gets the place of another value
    return np.where(values[places] == wanted, places, -1)


def among(wanted: IntArray, values: IntArray) -> BoolArray:
    """Select those of *wanted* that are in *values*, as ``np.isin`` does, which takes longer for some thousands."""
    return np.asarray(places_of(wanted, values) >= 0)


def rows_with(values: IntArray, wanted: Collection[int]) -> list[int]:
    """Return the rows of *values* that are one of *wanted*."""
    if not wanted:
        return []
    found = np.flatnonzero(among(values, np.fromiter(wanted, np.int64, len(wanted))))
    rows: list[int] = found.tolist()
    return rows


@dataclass(frozen=True, eq=False)
class Table:
    """A table as columns: row *i* of every column describes the same thing. Columns are read-only after creation.

    A table of some rows of another takes each column when somebody asks for it: a decision reads few of all that are
    known of jobs.
    """

    __slots__ = ("__dict__", "__weakref__", "_sources")
    if TYPE_CHECKING:
        #: what columns are made of that nobody asked for yet: rows of others, the first that has one; or two tables
        _sources: ClassVar[tuple[tuple[Any, Rows | None], ...]]

    def __post_init__(self) -> None:
        # Tables are created often: the columns are all that an instance has now, and fields() builds a tuple each time.
        columns = [column.codes if isinstance(column, Labels) else column for column in self.__dict__.values()]
        if len(set(map(len, columns))) > 1:
            lengths = dict(zip(self.__dict__, map(len, columns), strict=True))
            raise ValueError(f"ragged {type(self).__name__}: {lengths}")
        for column in columns:
            column.setflags(write=False)

    if not TYPE_CHECKING:  # else every misspelt column would be one

        def __getattr__(self, name: str) -> Any:
            if name == "_sources":
                return ()
            if not self._sources or name not in self.__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            columns, rows = self._sources[0]
            if rows is not None and name not in columns:
                columns, rows = next(source for source in self._sources if source[1] is None or name in source[0])
            column = _joined(*columns, name) if rows is None else _rows_of(columns[name], rows)
            self.__dict__[name] = column  # another thread may do the same
            return column

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __len__(self) -> int:
        return len(getattr(self, self.__match_args__[0]))  # type: ignore[misc]  # every kind of table has columns

    def take(self, rows: Rows) -> Self:
        """Return the table of *rows* only, in that order."""
        if not isinstance(rows, slice):  # a copy, since columns are taken later
            given = np.array(rows)
            rows = np.flatnonzero(given) if given.dtype == np.bool_ else given.astype(np.int64, copy=False)
        sources = self._sources
        if len(sources) > MOST_SOURCES or any(first is None for _, first in sources):
            here, sources = self.__getstate__(), ()
        else:
            here = self.__dict__.copy() if sources else self.__dict__  # another thread may add to it
        composed = [(columns, _rows_of_rows(first, rows, columns)) for columns, first in sources]
        return self._of(((here, rows), *composed) if here else tuple(composed))

    @classmethod
    def _of(cls, sources: tuple[tuple[Any, Rows | None], ...]) -> Self:
        table = object.__new__(cls)
        object.__setattr__(table, "_sources", sources)
        return table

    def changed(self, **columns: NDArray[Any] | Labels) -> Self:
        """Return this table with other *columns*; ``dataclasses.replace`` checks all that the table has."""
        length, known = len(self), self.__dataclass_fields__
        for name, column in columns.items():
            if name not in known or len(column) != length:
                raise ValueError(f"{type(self).__name__} has no column {name} of {len(column)} rows")
            (column.codes if isinstance(column, Labels) else column).setflags(write=False)
        table = self._of(self._sources)
        table.__dict__.update(self.__dict__)
        table.__dict__.update(columns)
        return table

    def joined(self, other: Self) -> Self:
        """Return a table of the rows of this one, then those of *other*."""
        return type(self)(**{name: _joined(self, other, name) for name in self.__dataclass_fields__})

    def followed_by(self, other: Self) -> Self:
        """Return what ``joined`` does, each column made when somebody asks for it: both tables stay in memory."""
        return self._of((((self, other), None),))

    def equals(self, other: Self) -> bool:
        """Return True if both tables hold the same values, row by row (NaN equals NaN)."""
        if type(self) is not type(other) or len(self) != len(other):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))


class Filler(Enum):
    """Who fills in a column."""

    SLURM = "Slurm"
    COMMENT = "its owner's comment"
    MEMORY = "earlier observations"
    INTENTS = "our requests to Slurm"
    LEARNT = "what its kind did before"
    POWERS = "what the powers will do to it"
    SIMULATOR = "a simulated cluster"
    QUESTION = "a job that is only asked about"


@dataclass(frozen=True)
class Column:
    """The declaration of a column: who fills it in, its neutral value, and how it is read."""

    by: Filler
    neutral: Any = 0  #: 0 stands for an empty text too
    fields: tuple[str, ...] = ()  #: of squeue -O, or of sinfo -N -O
    read: Callable[..., Any] | None = None  #: makes the column of the texts of all fields, or an option of a comment
    each: Callable[[str], Any] | None = None  #: makes the value of one text, in place of *read*
    part: int | None = None  #: which part of what *read* returns, where several columns are read at once
    optional: bool = False  #: read only where somebody needs it
    recorded: bool = True  #: decision records hold it
    stored: str = ""  #: its name in decision records, where that is another


UNREAD: Any = np.zeros(0)
"""In place of a column that a source does not read; ``fill_unread`` puts its neutral value into each row."""


def column(by: Filler, shown: str | tuple[str, ...] = (), read: Any = None, given: bool = True, **rest: Any) -> Any:
    """Declare a column of a table; *shown* names the fields of Slurm's command that it is made of.

    One that not every source has is not *given*, and may be left out.
    """
    names = (shown,) if isinstance(shown, str) else shown
    metadata = {"column": Column(by, fields=names, read=read, **rest)}
    return field(metadata=metadata) if given else field(default_factory=lambda: UNREAD, metadata=metadata)


def fill_unread(table: Table) -> None:
    """Give the columns of *table* that were not read their neutral values."""
    kind: Any = type(table)
    for name, one in declared(kind).items():
        if getattr(table, name) is UNREAD:
            object.__setattr__(table, name, _column(_types(kind)[name], len(table), None, one.neutral))


from_slurm, from_comment = partial(column, Filler.SLURM), partial(column, Filler.COMMENT, (), recorded=False)
from_memory, from_intents = partial(column, Filler.MEMORY), partial(column, Filler.INTENTS)
learnt, foreseen = partial(column, Filler.LEARNT), partial(column, Filler.POWERS)
simulated, asked_about = partial(column, Filler.SIMULATOR), partial(column, Filler.QUESTION)


@cache
def declared(kind: type[Any]) -> dict[str, Column]:
    """Return the declarations of the columns of a type of tables, by name."""
    return {f.name: f.metadata["column"] for f in fields(kind) if "column" in f.metadata}


def dtype_of(kind: type[Table], name: str) -> Any:
    """Return the type of the numbers in column *name*; None for a column of texts."""
    return _DTYPES.get(_types(kind)[name])  # type: ignore[arg-type]  # a class can be hashed


def table_of(kind: type[T], length: int, neutral: Mapping[str, Any], columns: Mapping[str, Any]) -> T:
    """Build a table of *length* rows from *columns*; missing ones are *neutral*, else zero or empty.

    Raises ValueError with the name of an unknown column.
    """
    types = _types(kind)  # type: ignore[arg-type]  # a class can be hashed
    if unknown := sorted(set(columns) - set(types)):
        raise ValueError(f"{kind.__name__} has no column {', '.join(unknown)}")
    return kind(**{name: _column(types[name], length, columns.get(name), neutral.get(name, 0)) for name in types})


_DTYPES: dict[Any, Any] = {IntArray: np.int64, FloatArray: np.float64, BoolArray: np.bool_}


@cache
def _types(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _column(kind: Any, length: int, values: Any, neutral: Any) -> Any:
    if kind is Labels:
        if values is None:
            return Labels(np.zeros(length, dtype=np.int64), ("",))
        return values if isinstance(values, Labels) else Labels.of(values)
    dtype = _DTYPES[kind]
    return np.full(length, neutral, dtype=dtype) if values is None else np.array(values, dtype=dtype)


def _rows_of(column: NDArray[Any] | Labels, rows: Rows) -> NDArray[Any] | Labels:
    if isinstance(column, Labels):
        codes = column.codes[rows]
        codes.setflags(write=False)
        part = object.__new__(Labels)  # as its constructor would, which takes longer than the rest
        part.__dict__.update(codes=codes, names=column.names)
        return part
    values: NDArray[Any] = column[rows]
    values.setflags(write=False)
    return values


def _joined(one: Table, other: Table, name: str) -> NDArray[Any] | Labels:
    first, second = getattr(one, name), getattr(other, name)
    if isinstance(first, Labels):
        texts = first.joined(second)
        texts.codes.setflags(write=False)
        return texts
    values: NDArray[Any] = np.concatenate([first, second])
    values.setflags(write=False)
    return values


def _rows_of_rows(first: Any, then: Rows, columns: Mapping[str, Any]) -> Rows:
    """Return which rows of *columns* are *then* of the *first* ones."""
    if isinstance(first, slice):
        first = np.arange(*first.indices(len(next(iter(columns.values())))))
    rows: Rows = first[then]
    return rows


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Labels):
        return left.equals(right)
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
