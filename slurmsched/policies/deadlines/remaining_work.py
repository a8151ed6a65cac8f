"""Remaining work: the time that jobs still need, by their forecasts and the time they have run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Table
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobState, JobTable
from .lateness import chance_late

OVERRUN = 0.1
"""The share of its planned runtime that a job is assumed to need still if it has run nearly as long as planned."""

ROUNDING_S = 1.0
"""The rounding of forecasts and of Slurm's times; a job that is late by less counts as in time."""


@dataclass(frozen=True, eq=False)
class RemainingWork(Table):
    """Jobs by row, in seconds."""

    gpus: IntArray
    median_s: FloatArray  #: forecast runtime
    planned_s: FloatArray  #: the runtime of plans: the upper decile of the forecast, at most the time limit
    done_s: FloatArray  #: the work done
    owed_s: FloatArray  #: the cost of resuming that lies ahead

    @property
    def left_s(self) -> FloatArray:
        """The time that each job still needs by plans."""
        least_s = np.where(self.planned_s > self.median_s * (1.0 + 1e-9), OVERRUN * self.planned_s, 1.0)
        left_s: FloatArray = np.maximum(self.planned_s - self.done_s, least_s) + self.owed_s
        return left_s

    def chances_late(self, now_s: float, due_s: FloatArray) -> FloatArray:
        """Return the probability that each job ends after each of its *due_s* (job x moment) if it runs from now on."""
        ahead_s = due_s - now_s - self.owed_s[:, None] + ROUNDING_S
        return chance_late(self.median_s[:, None], self.planned_s[:, None], self.done_s[:, None], ahead_s)


def remaining_work(jobs: JobTable, forecast: Forecast, now_s: float, restart_s: FloatArray) -> RemainingWork:
    """Return the work left of running and pending *jobs*; *restart_s* is the cost of resuming each after a stop.

    Without a forecast a job is assumed to need its whole time limit.
    """
    limit_s = jobs.time_limit_s
    median_s = np.fmin(forecast.runtime_s, limit_s)
    runs = jobs.state == JobState.RUNNING
    this_s = np.where(runs, np.maximum(now_s - np.nan_to_num(jobs.started_s, nan=now_s), 0.0), 0.0)
    owed_s = np.where(jobs.restarts > 0, np.maximum(restart_s - this_s, 0.0), 0.0)
    resumed_s = jobs.restarts * restart_s - owed_s
    done_s = np.maximum(np.maximum(jobs.ran_s, this_s) - resumed_s, 0.0)
    return RemainingWork(jobs.gpus, median_s, np.fmax(np.fmin(forecast.high_s, limit_s), median_s), done_s, owed_s)
