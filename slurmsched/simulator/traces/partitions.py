"""The partitions of a trace, mapped to those of another cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...cluster.columns import Labels
from ...cluster.text.plural import count
from ...config.suggestion import suggestion
from .trace import Note, Trace, TraceError

REST = ""
"""Stands for every partition that is not mapped by name."""


def mapped(trace: Trace, mapping: Sequence[tuple[str, str]]) -> Trace:
    """Replace each partition on the left of *mapping* by the list on its right, ``REST`` by its own.

    TraceError where no job requests a partition on the left.
    """
    jobs = trace.workload
    used = [jobs.partition.names[code] for code in np.unique(jobs.partition.codes).tolist()]
    by_name = dict(mapping)
    rest = by_name.pop(REST, None)
    for name in by_name:
        if name not in used:
            raise TraceError(f"mapping partitions: no job asks for partition {name}{suggestion(name, used)}")
    names = [by_name.get(name, name if rest is None else rest) for name in jobs.partition.names]
    unique = list(dict.fromkeys(names))
    codes = jobs.partition.map([unique.index(name) for name in names], np.int64)
    notes = [_note(jobs.partition, [name], target, name) for name, target in by_name.items()]
    if rest is not None:
        others = [name for name in used if name not in by_name]
        notes.append(_note(jobs.partition, others, rest, "any other partition" if by_name else "any partition"))
    return replace(
        trace,
        workload=replace(jobs, partition=Labels(codes, tuple(unique))),
        notes=(*trace.notes, *(note for note in notes if note.rows)),
    )


def where_known(trace: Trace, partitions: Sequence[str]) -> Trace:
    """Let the jobs that ask for a partition which is not, or no longer, among *partitions* run in any of these."""
    jobs, every = trace.workload, ",".join(partitions)
    odd = [name for name in jobs.partition.names if not set(name.split(",")) <= set(partitions)]
    rows = int(jobs.partition.map([name in odd for name in jobs.partition.names], np.bool_).sum())
    if not rows:
        return trace
    names = [every if name in odd else name for name in jobs.partition.names]
    unique = list(dict.fromkeys(names))
    codes = jobs.partition.map([unique.index(name) for name in names], np.int64)
    note = Note("partitions", rows, f"{count(rows, 'job')} asked for a partition that is not there: any serves")
    return replace(trace, workload=replace(jobs, partition=Labels(codes, tuple(unique))), notes=(*trace.notes, note))


def _note(partition: Labels, names: Sequence[str], target: str, what: str) -> Note:
    rows = int(partition.map([name in names for name in partition.names], np.bool_).sum())
    return Note("partitions", rows, f"{count(rows, 'job')} of {what} may run in {target}")
