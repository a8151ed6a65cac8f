"""Queries about jobs by squeue, each with marks of its own between fields, for reads of the queue and before writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..read import squeue
from ..read.records import RecordColumns, cut, long_format
from .command_runner import CommandRunner, mark


def long(console: CommandRunner, command: str, options: Sequence[str], fields: Sequence[str]) -> RecordColumns:
    """Return *fields* of squeue or sinfo, delimited by marks drawn for this call."""
    field_mark, record_mark = mark(), mark()
    text = console.query([command, *options, "-O", long_format(fields, field_mark, record_mark)])
    return cut(command, text, fields, fields[0], field_mark, record_mark)


def exclusions(console: CommandRunner, options: Sequence[str]) -> dict[str, str]:
    """Return the excluded nodes of the jobs that *options* of squeue select, by id."""
    field_mark, record_mark = mark(), mark()
    shown = console.query(["squeue", "-a", *options, "-o", f"%A{field_mark}%x{record_mark}"])
    found = cut("squeue", shown, ("JobID", squeue.EXCLUDED), "JobID", field_mark, record_mark)
    return dict(zip(found["JobID"], found[squeue.EXCLUDED], strict=True))


def request_columns(console: CommandRunner, options: Sequence[str]) -> RecordColumns:
    """Return the CPUs, memory and nodes that jobs ask for."""
    return long(console, "squeue", ["-a", "--noconvert", *options], ("JobID", "ArrayJobID", *squeue.REQUEST))


def of_arrays_too(jobs: RecordColumns, found: Mapping[str, str]) -> dict[str, str]:
    """Return the texts *found* by id of *jobs*, and those of arrays of which all waiting tasks have the same."""
    arrays: dict[str, set[str]] = {}
    for job, array in zip(jobs["JobID"], jobs["ArrayJobID"], strict=True):
        arrays.setdefault(array, set()).add(found[job])
    return dict(found) | {array: texts.pop() if len(texts) == 1 else "" for array, texts in arrays.items()}
