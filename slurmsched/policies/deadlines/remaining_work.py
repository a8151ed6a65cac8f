"""Remaining work: the time that jobs still need, by their forecasts and the time they have run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Table
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.outlook.remaining import HIGH, ROUNDING_S, Bounds, left_s
from .lateness import chance_late


@dataclass(frozen=True, eq=False)
class RemainingWork(Table):
    """Jobs by row, in seconds."""

    gpus: IntArray
    median_s: FloatArray  #: forecast runtime, at most the time limit
    high_s: FloatArray  #: its upper decile
    done_s: FloatArray  #: the work done
    owed_s: FloatArray  #: the cost of resuming that lies ahead
    until_limit_s: FloatArray  #: the time for which it may still run at once
    resume_s: FloatArray  #: what resuming costs it after its next stop

    @property
    def left_s(self) -> FloatArray:
        """The time that each job still needs by plans: nine in ten need no more."""
        return left_s(self.high_s, self.done_s, HIGH, self.until_limit_s) + self.owed_s

    def within_s(self, share: float) -> FloatArray:
        """Return the time within which a *share* of such jobs end."""
        whole_s = Bounds(self.median_s, self.median_s, self.high_s).within_s(share)
        return left_s(whole_s, self.done_s, share, self.until_limit_s) + self.owed_s

    def chances_late(self, now_s: float, due_s: FloatArray) -> FloatArray:
        """Return the probability that each job ends after each of its *due_s* (job x moment) if it runs from now on."""
        ahead_s = due_s - now_s - self.owed_s[:, None] + ROUNDING_S
        return chance_late(self.median_s[:, None], self.high_s[:, None], self.done_s[:, None], ahead_s)


def remaining_work(jobs: JobTable, forecast: Forecast, now_s: float, restart_s: FloatArray) -> RemainingWork:
    """Return the work left of running and pending *jobs*; *restart_s* is the cost of resuming each after a stop."""
    bounds = Bounds.of(forecast, jobs.time_limit_s)
    this_s = jobs.this_run_s(now_s)
    owed_s = np.where(jobs.restarts > 0, np.maximum(restart_s - this_s, 0.0), 0.0)
    resumed_s = jobs.restarts * restart_s - owed_s
    done_s = np.maximum(np.maximum(jobs.ran_s, this_s) - resumed_s, 0.0)
    until_limit_s = jobs.time_limit_s - this_s
    return RemainingWork(jobs.gpus, bounds.median_s, bounds.high_s, done_s, owed_s, until_limit_s, restart_s)
