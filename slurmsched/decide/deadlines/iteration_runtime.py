"""Runtimes of training jobs whose script reports its iteration time (`slurmsched.job`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.state import View

ERROR = 0.2
"""Relative standard error of a pace: the upper decile is then a quarter above it, and a pace that moves further is
reported anew."""

DECILE = 1.2816
"""Standard deviations from the median of a normal distribution to its upper decile."""


MEASURED_S = 60.0
"""The least run that measures a pace; ``slurmsched.job`` writes none before."""

SUPPORT = 0.25
"""The least part of the earlier runs that the iterations of a pending job must have taken at its pace: work that was
lost and start-ups take the rest."""


def ran_s(view: View) -> FloatArray:
    """Return how long each running job has run, in seconds."""
    return np.asarray(view.now_s - view.running.started_s)


def measured(jobs: JobTable, past_s: FloatArray | float = 0.0) -> BoolArray:
    """Select the jobs whose pace rests on a run that we saw: anybody can write one into a comment.

    They run, and have for *past_s*; or they wait to continue, and the iterations that they say are done account for
    their earlier runs.
    """
    running = np.broadcast_to(np.asarray(past_s, dtype=np.float64), len(jobs)) >= MEASURED_S
    earlier = (jobs.ran_s >= MEASURED_S) & (jobs.done * jobs.pace_s >= SUPPORT * jobs.ran_s)
    return np.asarray(np.isfinite(jobs.pace_s) & (running | earlier))


def earlier_s(jobs: JobTable, past_s: FloatArray | float = 0.0) -> FloatArray:
    """Return the time of earlier runs that jobs continue, which have run for *past_s* in this run.

    It is 0 for a job with a measured pace, which counts the iterations that are left.
    """
    return np.where(measured(jobs, past_s), 0.0, np.maximum(jobs.ran_s - past_s, 0.0))


def paced(forecast: Forecast, jobs: JobTable, past_s: FloatArray | float = 0.0) -> Forecast:
    """Return *forecast* with the runtimes of deadline jobs from their remaining iterations times their pace.

    Iterations done before this run (before the next one for a pending job) are subtracted, from the comment. Only a
    ``measured`` pace counts. A job that has already run longer than that (*past_s*) does more than iterate, and keeps
    its forecast.
    """
    rests = _rests(jobs)
    has_rest = np.isfinite(jobs.deadline_s) & measured(jobs, past_s) & (rests[:, 1] > past_s)
    if not has_rest.any():
        return forecast
    median_s, high_s = rests.T
    was = forecast.source
    return replace(
        forecast,
        runtime_s=np.where(has_rest, median_s, forecast.runtime_s),
        low_s=np.where(has_rest, 2.0 * median_s - high_s, forecast.low_s),
        high_s=np.where(has_rest, high_s, forecast.high_s),
        source=Labels(np.where(has_rest, len(was.names), was.codes), (*was.names, "the pace in its comment")),
    )


def _rests(jobs: JobTable) -> FloatArray:
    """Return the seconds of the remaining iterations: median and upper decile of each row, NaN where not known."""
    # A job requeued after its last iteration still has work to finish.
    left, pace_s = np.maximum(1, jobs.iterations - jobs.done), np.where(jobs.iterations > 0, jobs.pace_s, np.nan)
    return np.stack([left * pace_s, left * (pace_s + DECILE * (ERROR * pace_s))], axis=1)
