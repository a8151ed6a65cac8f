"""The project's own format: the columns of Workload under their names, as csv (also gzip) or Parquet.

Only ``submit_s``, ``runtime_s`` and ``gpus`` are required; the others have neutral defaults.
"""

from __future__ import annotations

import gzip
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...errors import install_line
from ..workload import rewards
from ..workload.workload import Workload
from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns
from .trace import TraceError

NEEDED = ("submit_s", "runtime_s", "gpus")
PARQUET = ".parquet"
_PARQUET_MAGIC = "PAR1"
_AT_ONCE = 65536  #: rows
_KINDS = get_type_hints(Workload)
_NAMES = tuple(f.name for f in fields(Workload))
_MARKS = frozenset(',"\r\n')


def _rewards(texts: Sequence[str]) -> Labels:
    for text in set(texts):
        rewards.steps_of(text)
    return cells.text(texts)


def _amount(text: str) -> float:
    value = float(cells.number((text,))[0])
    if value < 0:
        raise ValueError(f"{text!r} is no amount: accepted are numbers from 0 on, and nothing where it is not known")
    return 0.0 if math.isnan(value) else value


def _deadline(text: str) -> float:
    return math.inf if text.strip().lower() in ("inf", "") else float(cells.moment((text,))[0])


_CELLS: dict[str, cells.Cell] = {
    **{
        name: {IntArray: cells.whole, BoolArray: cells.flag, FloatArray: cells.number}.get(_KINDS[name], cells.text)
        for name in _NAMES
    },
    "submit_s": cells.moment,
    "memory_mib": cells.distinct(_amount),
    "time_limit_s": cells.limit,
    "deadline_s": cells.distinct(_deadline),
    "rewards": _rewards,
    "iterations": cells.distinct(_amount),
}


def _read(file: TraceFile) -> Raw:
    if file.header.startswith(_PARQUET_MAGIC):
        return _read_parquet(file)
    also = {name: cell for name, cell in _CELLS.items() if name not in NEEDED}
    raw = Raw(DelimitedRecords(file).read({name: _CELLS[name] for name in NEEDED}, also))
    _note_others(raw, file.fields())
    return raw


def _note_others(raw: Raw, names: frozenset[str]) -> None:
    if others := sorted(names - set(_NAMES)):
        raw.note("columns", len(raw), f"columns that are not of this format are not read: {', '.join(others)}")


def write(jobs: Workload, path: str | Path) -> None:
    """Write *jobs* so that reading restores them; ``.gz`` and ``.parquet`` in the name choose the format.

    TraceError where it cannot be written.
    """
    path = Path(path)
    if path.suffix == PARQUET:
        _write_parquet(jobs, path)
        return
    try:
        with path.open("wb") as raw:
            if path.suffix == ".gz":
                # No name and no time in the archive: the same jobs make the same file.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    _write_csv(jobs, packed.write)
            else:
                _write_csv(jobs, raw.write)
    except (OSError, UnicodeEncodeError) as error:
        raise TraceError(f"writing the trace {path}: {error}") from error


def _write_csv(jobs: Workload, out: Callable[[bytes], object]) -> None:
    out((",".join(_NAMES) + "\n").encode())
    for start in range(0, len(jobs), _AT_ONCE):
        some = jobs.take(slice(start, start + _AT_ONCE))
        rows = zip(*(_texts(getattr(some, name)) for name in _NAMES), strict=True)
        out("".join(",".join(row) + "\n" for row in rows).encode("utf-8", "surrogateescape"))


def _texts(column: Any) -> list[str]:
    if isinstance(column, Labels):
        texts = [_quoted(name) for name in column.names]
        return [texts[code] for code in column.codes.tolist()]
    if column.dtype == np.bool_:
        column = column.astype(np.int64)
    if column.dtype.kind == "f":
        return [repr(int(value) if value.is_integer() else value) for value in column.tolist()]
    return list(map(str, column.tolist()))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _MARKS & set(text) else text


def _pyarrow(doing: str, path: Path) -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise TraceError(
            f"{doing} {path}: Parquet needs pyarrow, which is not installed; accepted without it are .csv and .csv.gz;"
            f" {install_line('parquet')}"
        ) from error


def _read_parquet(file: TraceFile) -> Raw:
    pyarrow, parquet = _pyarrow("reading the trace", file.path)
    try:
        table = parquet.read_table(file.path)
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"reading the trace {file.path}: {error}") from error
    names = table.column_names
    if missing := [name for name in NEEDED if name not in names]:
        raise TraceError(f"{file.path}: there is no column {', '.join(missing)}: it has {', '.join(names)}")
    raw = Raw({name: _meant(file, name, table[name].to_pylist()) for name in names if name in _CELLS})
    _note_others(raw, frozenset(names))
    return raw


def _meant(file: TraceFile, name: str, values: list[Any]) -> Any:
    """Convert a column by the rules of the text format, so that both formats accept the same values."""
    texts = ["" if value is None else str(value) for value in values]
    try:
        return _CELLS[name](texts)
    except ValueError as error:
        raise TraceError(f"{file.path}, column {name}: {error}") from error


def _write_parquet(jobs: Workload, path: Path) -> None:
    pyarrow, parquet = _pyarrow("writing the trace", path)
    columns = {name: getattr(jobs, name) for name in _NAMES}
    plain = {name: list(column) if isinstance(column, Labels) else column for name, column in columns.items()}
    try:
        parquet.write_table(pyarrow.table(plain), path)
    except (OSError, UnicodeEncodeError, pyarrow.ArrowException) as error:
        raise TraceError(f"writing the trace {path}: {error}") from error


_by_header = with_columns(*NEEDED)
OWN = Format(
    "slurmsched",
    "a csv or Parquet file with the columns submit_s, runtime_s, gpus, and any other column of docs/traces.md",
    lambda file: file.header.startswith(_PARQUET_MAGIC) or _by_header(file),
    _read,
)
