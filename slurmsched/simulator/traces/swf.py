"""The Standard Workload Format of the Parallel Workloads Archive; its processors are read as GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np

from ...cluster.columns import FloatArray, Labels
from .cleaning import Raw
from .file import TraceFile
from .format import Format

_FIELDS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory"),
    *("requested processors", "requested time", "requested memory", "status", "user", "group", "executable"),
    *("queue", "partition", "preceding job", "think time"),
)
_AT_ONCE = 65536  #: lines
_START = re.compile(r";\s*UnixStartTime:\s*(\d+)")
_QUEUE = re.compile(r";\s*Queue:\s*(\d+)\s+(\S.*?)\s*$")
_PARTIAL = (2, 3, 4)  #: statuses of a line about part of a job, whose whole has a line too


def _recognises(file: TraceFile) -> bool:
    first = next((line for line in file.head if line.strip() and not line.startswith(";")), "")
    words = first.split()
    comments_only = not first and file.header.startswith(";")
    return comments_only or (len(words) == len(_FIELDS) and all(_is_number(word) for word in words))


def _read(file: TraceFile) -> Raw:
    raw = all_jobs(file)
    raw.aside("_wait_s")
    return raw


def all_jobs(file: TraceFile) -> Raw:
    """Read the jobs; the column ``_wait_s`` has their waits, negative where not known."""
    with file.text() as text:
        comments: list[str] = []
        parts = list(_tables(file, text, comments))
    table = np.concatenate(parts) if parts else np.zeros((0, len(_FIELDS)))
    starts = [int(found[1]) for line in comments if (found := _START.match(line))]
    queues = {int(found[1]): found[2] for line in comments if (found := _QUEUE.match(line))}
    raw = Raw(_columns(table, starts[0] if starts else 0, queues))
    raw.note("processors", len(raw), "processors stand for GPUs in {jobs}")
    status = table[:, 10]
    raw.only(~np.isin(status, _PARTIAL), "partial", "{jobs} left out: lines about a part of a job (status 2, 3 or 4)")
    return raw


def _columns(table: FloatArray, start_s: int, queues: dict[int, str]) -> dict[str, object]:
    number, submit_s, wait_s, runtime_s, allocated, _, _, requested, limit_s, *_ = table.T
    user, group, executable, queue = table[:, 11:15].T
    return {
        "job_id": number.astype(np.int64),
        "submit_s": np.where(submit_s < 0, np.nan, submit_s + start_s),
        "_wait_s": wait_s,
        "runtime_s": runtime_s,
        "gpus": np.maximum(np.where(requested > 0, requested, allocated), 0).astype(np.int64),
        "time_limit_s": np.where(limit_s > 0, limit_s, np.inf),
        "user": _named(user, lambda number: f"user{number}"),
        "account": _named(group, lambda number: f"group{number}"),
        "name": _named(executable, lambda number: f"app{number}"),
        "partition": _named(queue, lambda number: queues.get(number, f"queue{number}")),
    }


def _named(numbers: FloatArray, name: object) -> Labels:
    """Return one text per number; empty for negative ones, which are unknown."""
    distinct, codes = np.unique(numbers.astype(np.int64), return_inverse=True)
    texts = tuple("" if number < 0 else name(number) for number in distinct.tolist())  # type: ignore[operator]
    return Labels(codes.astype(np.int64), texts or ("",))


def _tables(file: TraceFile, lines: Iterable[str], comments: list[str]) -> Iterator[FloatArray]:
    """Yield the numbers of the lines, many at once, and collect the comments in *comments*."""
    numbered = enumerate(lines, start=1)
    while some := list(islice(numbered, _AT_ONCE)):
        comments += [line for _, line in some if line.startswith(";")]
        rows = [(at, line.split()) for at, line in some if not line.startswith(";") and line.strip()]
        if rows:
            yield _table(file, rows)


def _table(file: TraceFile, rows: list[tuple[int, list[str]]]) -> FloatArray:
    for at, words in rows:
        if len(words) != len(_FIELDS):
            raise file.at(at, f"the line has {len(words)} fields: accepted are the {len(_FIELDS)} of the format")
    try:
        numbers = np.fromiter(map(float, chain.from_iterable(words for _, words in rows)), np.float64)
    except ValueError as error:
        raise _culprit(file, rows) from error
    if not np.isfinite(numbers).all():
        raise _culprit(file, rows)
    return numbers.reshape(-1, len(_FIELDS))


def _culprit(file: TraceFile, rows: list[tuple[int, list[str]]]) -> Exception:
    for at, words in rows:
        for name, word in zip(_FIELDS, words, strict=True):
            if not _is_number(word):
                return file.at(at, f"{word!r} is no number: accepted are numbers, -1 where not known", name)
    raise ValueError(f"{file.path} holds no bad number")


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


SWF = Format("swf", "lines of 18 numbers, comments after ; (Standard Workload Format)", _recognises, _read)
