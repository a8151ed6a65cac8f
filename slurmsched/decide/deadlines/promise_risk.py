"""Risk of promises: select promises that may be broken, whose owners are warned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray, among
from ...cluster.records.promises import PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lateness import in_doubt
from ...policies.deadlines.reservations import DeadlineRequests, Room
from .gpu_availability import GpuAvailability


def announced(
    view: View,
    table: PromiseTable,
    availability: GpuAvailability,
    rows: IntArray,
    starts_s: FloatArray,
    held: DeadlineRequests,
    left: Room,
    beat_s: float,
) -> PromiseTable:
    """Return *table* with ``announced_s``: since when the present forecast endangers each promise, NaN if it does not.

    *rows* are pending rows with a promise, *held* their requests, *starts_s* their starts in the latest plan, NaN if
    they have none; *left* is the room beside that plan, *beat_s* the longest time until the next check. A job is judged
    by the time that it needs if it runs from now on, one without a place from its earliest possible start; what an
    earlier run has done counts, so that a job in doubt remains so after a stop.
    """
    jobs, work = view.pending.followed_by(view.running), availability.work
    waits = np.arange(len(jobs)) < len(view.pending)
    begins_s = np.where(waits, availability.soonest_s, view.now_s)
    for place in np.flatnonzero(np.isnan(starts_s)).tolist():
        row = int(rows[place])
        least_s = float(work.within_s(0.5)[row])
        start_s = left.earliest(held.rows[place], int(held.gpus[place]), least_s, view.now_s)
        begins_s[row] = start_s if np.isfinite(start_s) else np.inf
    ends_s = np.where(waits, begins_s, jobs.started_s) + jobs.time_limit_s
    row_of = {job: row for row, job in enumerate(jobs.job_id.tolist())}
    places = np.flatnonzero(table.open & among(table.job_id, jobs.job_id))
    some = np.array([row_of[job] for job in table.job_id[places].tolist()], dtype=np.int64)
    promised_s = table.promised_s[places]
    due_s = promised_s - (begins_s[some] - view.now_s)
    late = work.take(some).chances_late(view.now_s, due_s[:, None])[:, 0]
    late[ends_s[some] <= promised_s] = 0.0
    window_s = promised_s - table.first_submit_s[places]
    doubtful = in_doubt(late, promised_s - view.now_s, window_s, beat_s)
    announced_s = np.where(table.open, np.nan, table.announced_s)
    announced_s[places[doubtful]] = np.fmin(table.announced_s[places[doubtful]], view.now_s)
    return replace(table, announced_s=announced_s)
