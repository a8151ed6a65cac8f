"""The part of their work after which jobs converge, and then stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import cells
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .trace import Note, Trace

PART = "converged_at"


def stopped_at_convergence(trace: Trace, path: str) -> Trace:
    """Shorten each job of *trace* to the part of its runtime that the csv file *path* states by job id.

    Its columns are ``job_id`` and ``converged_at``, above 0 and up to 1. Jobs that it lacks run to their end.
    TraceError for a part out of range, and where the file names no job of the trace.
    """
    file = TraceFile(path)
    records = DelimitedRecords(file)
    read = records.read({"job_id": cells.whole, PART: cells.number})
    parts = read[PART]
    for row in np.flatnonzero(~((parts > 0) & (parts <= 1))).tolist():
        raise records.fail(row, PART, f"{parts[row]:g} is no part of a job: accepted are numbers above 0 and up to 1")
    part_of = dict(zip(read["job_id"].tolist(), parts.tolist(), strict=True))
    jobs = trace.workload
    part = np.array([part_of.get(job_id, 1.0) for job_id in jobs.job_id.tolist()])
    if not np.isin(jobs.job_id, read["job_id"]).any():
        raise file.at(1, "none of these jobs is in the trace", "job_id")
    stop = int((part < 1).sum())
    note = Note("stops", stop, f"{stop} of {len(jobs)} jobs stop where {path} says that they have converged")
    shorter = replace(jobs, runtime_s=jobs.runtime_s * part)
    return replace(trace, workload=shorter, notes=(*trace.notes, note))
