"""Finish-time fairness: the time a job took, relative to its time on an equal share of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray
from ..replay import Replay
from .timeline import Timeline


@dataclass(frozen=True)
class Fairness:
    """Finish-time fairness over all jobs; NaN where there are none."""

    mean_rho: float
    p99_rho: float
    unfairness: float  #: mean of max(0, rho - 1)

    @classmethod
    def of(cls, replay: Replay) -> Self:
        """Compute the figures of the jobs of *replay* that have a rho."""
        values = rho(replay)[replay.measured]
        values = values[np.isfinite(values)]
        if not len(values):
            return cls(np.nan, np.nan, np.nan)
        late = np.maximum(0.0, values - 1)
        return cls(float(values.mean()), float(np.percentile(values, 99)), float(late.mean()))


def rho(replay: Replay) -> FloatArray:
    """Compute JCT over fair JCT per job (Themis, NSDI 2020); NaN for jobs without runtime or end.

    A fair JCT is the runtime on an equal share: the cluster's GPUs over the number of jobs in the system, averaged over
    the time that the job was there. A job that requests no more than that runs at full speed.
    """
    jobs = replay.workload
    found = np.full(len(jobs), np.nan)
    rows = np.flatnonzero((jobs.runtime_s > 0) & np.isfinite(replay.end_s))
    submit_s, end_s = jobs.submit_s[rows], replay.end_s[rows]
    active = np.maximum(_present(replay).mean(submit_s, end_s), 1.0)
    fair_s = jobs.runtime_s[rows] * np.maximum(1.0, jobs.gpus[rows] * active / max(replay.fleet.total, 1))
    found[rows] = (end_s - submit_s) / fair_s
    return found


def _present(replay: Replay) -> Timeline:
    """Return the number of jobs with a runtime in the system; jobs that go on are there to the last end."""
    last_s = float(np.nanmax(replay.end_s, initial=-np.inf))
    rows = np.flatnonzero((replay.workload.runtime_s > 0) & (replay.workload.submit_s <= last_s))
    return Timeline.of(replay.workload.submit_s[rows], np.nan_to_num(replay.end_s[rows], nan=last_s))
