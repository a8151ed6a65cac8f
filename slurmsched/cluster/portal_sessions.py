"""Interactive sessions that a portal submits as batch jobs: known by their names alone."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from .jobs import JobTable


def with_sessions(jobs: JobTable, patterns: Sequence[str]) -> JobTable:
    """Return *jobs* in which those are interactive whose name matches one of *patterns*, as of a shell."""
    if not patterns or not len(jobs):
        return jobs
    named = [any(fnmatchcase(name, pattern) for pattern in patterns) for name in jobs.name.names]
    if not any(named):
        return jobs
    return jobs.changed(interactive=jobs.interactive | jobs.name.map(named, np.bool_))
