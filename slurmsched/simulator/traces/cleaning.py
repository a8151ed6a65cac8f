"""Cleaning: the rows of a trace that are jobs, in order of submission. Every change leaves a note."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, Labels
from ...cluster.text.plural import count
from ..workload.workload import Workload, workload
from .trace import Note

_NOUNS = re.compile(r"\{([a-z ]+)s\}")


@dataclass
class Raw:
    """The columns of Workload as in the source, one row each; unknown times are NaN. Rows without ids are numbered."""

    columns: dict[str, Any]
    notes: list[Note] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns["submit_s"])

    def note(self, rule: str, rows: int, text: str) -> None:
        """Note what was done to *rows*, unless there are none; ``{jobs}``, ``{steps}`` in *text* become the count."""
        if rows:
            self.notes.append(Note(rule, rows, _NOUNS.sub(lambda noun: count(rows, noun[1]), text)))

    def aside(self, name: str) -> Any:
        """Remove a column that only the reading needs, and return it."""
        return self.columns.pop(name)

    def only(self, wanted: BoolArray, rule: str, text: str) -> None:
        """Drop the rows that are not *wanted*, with a note."""
        left_out = int(np.count_nonzero(~wanted))
        if left_out:
            self.columns.setdefault("job_id", np.arange(1, len(self) + 1))
            self.columns = {name: _taken(column, wanted) for name, column in self.columns.items()}
        self.note(rule, left_out, text)


def cleaned(raw: Raw, *, cpu_jobs: bool) -> tuple[Workload, tuple[Note, ...]]:
    """Return the jobs of *raw* by submit time, with unique ids; those without GPUs only with *cpu_jobs*."""
    _leave_out(raw, cpu_jobs)
    raw.columns.setdefault("job_id", np.arange(1, len(raw) + 1))
    submit_s = np.asarray(raw.columns["submit_s"], dtype=np.float64)
    late = int(np.count_nonzero(np.diff(submit_s) < 0))
    jobs = workload(len(raw), **raw.columns)
    if late:
        jobs = jobs.take(np.argsort(submit_s, kind="stable"))
    raw.note("order", late, "{jobs} stood after one submitted later: sorted by submit time, ties as in the source")
    return _numbered(jobs, raw), tuple(raw.notes)


def _leave_out(raw: Raw, cpu_jobs: bool) -> None:
    # One rule after the other: a row that breaks several is counted by the first.
    raw.only(~np.isnan(raw.columns["submit_s"]), "submit", "{jobs} without a submit time left out")
    runtime_s = raw.columns["runtime_s"]
    raw.only(~np.isnan(runtime_s), "runtime", "{jobs} without a runtime left out")
    raw.only(raw.columns["runtime_s"] > 0, "runtime", "{jobs} with a runtime of zero or less left out")
    if not cpu_jobs:
        raw.only(raw.columns["gpus"] > 0, "gpus", "{jobs} without GPUs left out")


def _numbered(jobs: Workload, raw: Raw) -> Workload:
    """Make ids unique: a later row with the id of another gets a number above all others."""
    _, first = np.unique(jobs.job_id, return_index=True)
    again = len(jobs) - len(first)
    if not again:
        return jobs
    raw.note("ids", again, "{jobs} had the id of another: numbered anew")
    repeated = np.ones(len(jobs), dtype=np.bool_)
    repeated[first] = False
    job_id = jobs.job_id.copy()
    job_id[repeated] = job_id.max() + 1 + np.arange(again)
    return replace(jobs, job_id=job_id)


def per_node(total: Any, nodes: Any) -> Any:
    """Return whole units per node, rounded up, where *total* are spread over *nodes* (0 counts as 1)."""
    spread = np.maximum(nodes, 1)
    return -(-np.asarray(total) // spread)


def _taken(column: Any, wanted: BoolArray) -> Any:
    return column.take(wanted) if isinstance(column, Labels) else column[wanted]
