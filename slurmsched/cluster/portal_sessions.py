"""Interactive sessions that a portal submits as batch jobs: known by their names alone."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache

import numpy as np

from .jobs import JobTable


def with_sessions(jobs: JobTable, patterns: tuple[str, ...]) -> JobTable:
    """Return *jobs* in which those are interactive whose name matches one of *patterns*, as of a shell."""
    if not patterns or not len(jobs):
        return jobs
    matches = _any_of(patterns).match
    named = [matches(name) is not None for name in jobs.name.names]
    if not any(named):
        return jobs
    return jobs.changed(interactive=jobs.interactive | jobs.name.map(named, np.bool_))


@lru_cache(maxsize=16)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))
