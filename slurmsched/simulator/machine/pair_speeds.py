"""The speeds of jobs that run on the same GPUs, by program or else by job name."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..cluster_spec import Sharing
from ..engine.job_state import JobSpeed
from ..workload.workload import Workload

UNMEASURED = 0.5
"""The default speed of a job beside another where the pair was not measured: as if the two took turns."""


def profiles_of(jobs: Workload, sharing: Sharing) -> IntArray:
    """Return the number of each job in tables of pairs, from 1 on; 0 for a job that the table does not have."""
    number = {name: at for at, name in enumerate(sharing.names, start=1)}
    profile: IntArray = jobs.program.map([number.get(name, 0) for name in jobs.program.names], np.int64)
    return profile


def framed(table: FloatArray) -> FloatArray:
    """Return the table with a first row and column for jobs that it does not have."""
    return np.pad(table, ((1, 0), (1, 0)))


def with_pairs(pace: JobSpeed, jobs: Workload, sharing: Sharing | None, unmeasured: float) -> JobSpeed:
    """Return *pace* with a speed for any two jobs: of the table, else *unmeasured*."""
    if sharing is None:
        return pace._replace(profile=np.zeros(len(jobs), dtype=np.int64), beside=np.full((1, 1), unmeasured))
    speeds = framed(sharing.speeds)
    return pace._replace(profile=profiles_of(jobs, sharing), beside=np.where(speeds > 0, speeds, unmeasured))
