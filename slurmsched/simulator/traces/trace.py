"""A trace: the jobs of a file or a database, with notes on what reading changed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import Labels
from ...errors import SlurmschedError
from ..workload.workload import NO_EARLIER_JOBS, EarlierJobs, Workload

_SPAN = re.compile(r"(\d*)(:?)(\d*)")


class TraceError(SlurmschedError):
    """A failure to read or write a trace; the text names file, line and column, and what is accepted."""


@dataclass(frozen=True)
class Note:
    """A change to some rows of a trace, by a rule that ``docs/traces.md`` explains."""

    rule: str
    rows: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Trace:
    """Jobs by submit time, with a note for everything that differs from the source."""

    workload: Workload
    notes: tuple[Note, ...]
    format: str
    earlier: EarlierJobs = NO_EARLIER_JOBS
    past: Workload | None = None  #: runs that had ended before, which forecasts and fair share know

    def __len__(self) -> int:
        return len(self.workload)

    def rows(self, span: str) -> tuple[int, int]:
        """Return first and last + 1 of the jobs *a:b* in order of submission; TraceError for an invalid *span*."""
        found = _SPAN.fullmatch(span.strip())
        if not found or not found[2]:
            raise TraceError(f"choosing jobs {span!r}: accepted are a:b, a: and :b, counted from 0, b left out")
        first, last = int(found[1] or 0), min(int(found[3] or len(self)), len(self))
        if first >= last:
            raise TraceError(f"choosing jobs {span!r}: the trace has no such jobs, only 0:{len(self)}")
        return first, last

    def jobs(self, span: str) -> Trace:
        """Select the jobs *a:b* in order of submission, from 0, without b; TraceError for an invalid *span*."""
        first, last = self.rows(span)
        note = Note("jobs", last - first, f"jobs {first}:{last} of {len(self)} are taken")
        before, earlier = self.workload.take(slice(first)), self.earlier
        earlier = EarlierJobs(
            np.concatenate([earlier.submit_s, before.submit_s]), np.concatenate([earlier.gpus, before.gpus])
        )
        return replace(self._with(self.workload.take(slice(first, last)), note), earlier=earlier)

    def scaled(self, load: float, since_s: float | None = None) -> Trace:
        """Scale the arrivals to *load* times the rate; deadlines keep their distance from submission.

        The moment *since_s*, or else the first submission, keeps its time.
        """
        if not (math.isfinite(load) and load > 0):
            raise TraceError(f"scaling the load by {load}: accepted is a number above 0")
        jobs = self.workload
        if load == 1 or not len(jobs):
            return self
        since_s = float(jobs.submit_s[0]) if since_s is None else since_s
        submit_s = since_s + (jobs.submit_s - since_s) / load
        deadline_s = submit_s + (jobs.deadline_s - jobs.submit_s)
        note = Note("load", len(jobs), f"times between arrivals are divided by {load:g}")
        earlier = self.earlier._replace(submit_s=since_s + (self.earlier.submit_s - since_s) / load)
        return replace(self._with(replace(jobs, submit_s=submit_s, deadline_s=deadline_s), note), earlier=earlier)

    def of_any_type(self) -> Trace:
        """Drop the types of GPUs that jobs ask for."""
        typed = int(self.workload.gpu_type.nonempty().sum())
        if not typed:
            return self
        untyped = replace(self.workload, gpu_type=Labels.of([""] * len(self)))
        return self._with(untyped, Note("gpu_type", typed, "any type of GPUs will do: the cluster names no types"))

    def without(self, rows: Sequence[int]) -> Trace:
        """Drop *rows*; TraceError where no job is left."""
        if len(rows) == len(self):
            raise TraceError(f"no job of these {len(self)} could ever run on this cluster")
        remaining = np.delete(np.arange(len(self)), np.array(rows, dtype=np.int64))
        return replace(self, workload=self.workload.take(remaining))

    def _with(self, jobs: Workload, note: Note) -> Trace:
        return replace(self, workload=jobs, notes=(*self.notes, note))
