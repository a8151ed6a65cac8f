"""Risk of promises: select promises that may be broken, whose owners are warned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.promises import PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lateness import chance_late, in_doubt
from ...policies.deadlines.reservations import DeadlineRequests, Room
from .gpu_availability import planned_s
from .iteration_runtime import earlier_s, paced, ran_s

Rest = tuple[float, float, float, float, float]
"""Begin, median and upper decile of the time from then on, how much of it is over, and the end by the limit."""


def announced(
    view: View,
    table: PromiseTable,
    rows: IntArray,
    starts_s: FloatArray,
    held: DeadlineRequests,
    left: Room,
    beat_s: float,
) -> PromiseTable:
    """Return *table* with ``announced_s``: since when the present forecast endangers each promise, NaN if it does not.

    *rows* are pending rows with a promise, *starts_s* their starts in the latest plan, NaN if they have none;
    *beat_s* is the longest time until the next check. A job with a planned start is not in doubt before it runs.
    """
    rest = dict(_running(view)) | dict(_without_plan(view, rows, starts_s, held, left))
    places = np.flatnonzero(table.open)
    unknown = (view.now_s, np.nan, np.nan, 0.0, -np.inf)
    rest_columns = np.array([rest.get(job, unknown) for job in table.job_id[places].tolist()]).reshape(-1, 5)
    begins_s, median_s, high_s, over_s, limit_s = rest_columns.T
    promised_s = table.promised_s[places]
    late = chance_late(median_s, high_s, over_s, promised_s - begins_s)
    late[limit_s <= promised_s] = 0.0
    window_s = promised_s - table.first_submit_s[places]
    announced_now = in_doubt(late, promised_s - view.now_s, window_s, beat_s)
    announced_s = table.announced_s.copy()
    announced_s[places] = np.where(
        announced_now, np.where(np.isfinite(announced_s[places]), announced_s[places], view.now_s), np.nan
    )
    return replace(table, announced_s=announced_s)


def _running(view: View) -> Iterator[tuple[int, Rest]]:
    """Yield the remaining runtime of running jobs, from a forecast given the time they have run.

    Of a job that has outlasted even the upper decile of its forecast, the whole runtime, of which that time is over.
    """
    jobs, past_s = view.running, ran_s(view)
    forecast = paced(view.forecast_running, jobs, past_s)
    past_s = past_s + earlier_s(jobs, past_s)
    over_s = np.where(past_s >= forecast.high_s, past_s, 0.0)
    left_s = past_s - over_s
    median_s = np.maximum(forecast.runtime_s - left_s, 1.0)
    high_s = np.maximum(forecast.high_s - left_s, median_s)
    columns = (median_s, high_s, over_s, jobs.started_s + jobs.time_limit_s)
    for job, *rest in zip(jobs.job_id.tolist(), *(column.tolist() for column in columns), strict=True):
        yield job, (view.now_s, *rest)


def _without_plan(
    view: View, rows: IntArray, starts_s: FloatArray, held: DeadlineRequests, left: Room
) -> Iterator[tuple[int, Rest]]:
    """Yield the runtime of pending jobs without a planned start, from their earliest possible start."""
    jobs = view.pending
    forecast, done_s = paced(view.forecast, jobs), earlier_s(jobs)
    median_s, high_s = (np.maximum(planned_s(forecast, jobs, share) - done_s, 1.0) for share in (0.5, 0.9))
    for place in np.flatnonzero(np.isnan(starts_s)).tolist():
        row = int(rows[place])
        start_s = left.earliest(held.rows[place], int(held.gpus[place]), float(median_s[row]), view.now_s)
        begins_s = float(start_s) if np.isfinite(start_s) else np.inf
        limit_s = begins_s + float(jobs.time_limit_s[row])
        yield int(jobs.job_id[row]), (begins_s, float(median_s[row]), float(high_s[row]), 0.0, limit_s)
