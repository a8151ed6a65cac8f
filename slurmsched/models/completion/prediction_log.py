"""The log of predictions: which are recorded, and how they are matched with outcomes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, places_of
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.prediction_records import KeptState, PredictionRecords, kept_table
from ...cluster.records.predictions import PredictionTable
from ...cluster.reservations import in_the_way
from ...cluster.state import View
from .completion_calibration import keepable, scales

CHANGED, CHANGED_S = 0.25, 120.0
"""A new prediction is recorded where its finish moved by more than that share of the time to it, and those seconds."""

MOST_OF_A_JOB = 5
MOST_CLOSED, OLDEST_S = 20_000, 31 * 86400.0
"""The limits on closed predictions in memory."""

_NOT_THE_LAST = (JobState.REQUEUED, JobState.PREEMPTED, JobState.NODE_FAIL)


def with_new(
    records: PredictionRecords,
    raw: PredictionTable,
    calibrated: PredictionTable,
    *,
    delays: bool = False,
    window: BoolArray | None = None,
) -> tuple[PredictionRecords, BoolArray]:
    """Return *records* with the new predictions of *calibrated* (*raw* before calibration) added, and the changed rows.

    *delays* says whether we delay jobs for promises now, *window* which jobs have reservations of others before them.
    Slurm has no estimate for a job before its backfill has tried it. Its first estimate then counts, beside our
    earlier prediction. A job whose begin time is still to come has none that could teach or be judged.
    """
    records, changed = _with_slurms(records, raw)
    number = _numbers(records, raw)
    early = raw.begins_s > raw.made_s
    if window is not None:
        early &= ~window
    fitting = keepable(raw.kind) & raw.has_value & ~early
    rows = np.flatnonzero(fitting & (number >= 0) & (number < MOST_OF_A_JOB))
    ours, some = calibrated.take(rows), raw.take(rows)
    fresh = kept_table(
        len(rows),
        **{
            name: getattr(ours, name)
            for name in (
                *("job_id", "first_submit_s", "restarts", "made_s", "partition", "gpus", "slurm_start_s"),
                *("start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s", "finish_by_s"),
            )
        },
        number=number[rows],
        raw_start_s=some.start_s,
        raw_finish_s=some.finish_s,
        scale=scales(some),
        delays=np.full(len(rows), int(delays)),
        windows=np.full(len(rows), np.nan) if window is None else window[rows].astype(np.float64),
    )
    return records.joined(fresh), np.append(changed, np.ones(len(fresh), dtype=np.bool_))


def before_windows(raw: PredictionTable, view: View) -> BoolArray:
    """Select the predictions of jobs with a window of others on nodes of their partitions before they may have ended.

    A job's own reservation is none of others.
    """
    found = np.zeros(len(raw), dtype=np.bool_)
    windows, jobs = view.reservations, view.pending.joined(view.running)
    if not len(windows) or len(jobs) != len(raw):
        return found
    for row in range(len(windows)):
        ahead = (windows.start_s[row] < raw.finish_by_s) & (windows.end_s[row] > raw.made_s)
        found |= in_the_way(windows, row, view.nodes, jobs) & ahead
    return found


def met(records: PredictionRecords, running: JobTable, ended: OutcomeTable) -> tuple[PredictionRecords, BoolArray]:
    """Return *records* matched with the jobs *running* and the runs that *ended*, and the changed rows."""
    started_s, ended_s, state = records.started_s.copy(), records.ended_s.copy(), records.state.copy()
    rows = np.flatnonzero((state == KeptState.OPEN) & np.isnan(started_s))
    at = _at(running.job_id, running.first_submit_s, records.job_id[rows], records.first_submit_s[rows])
    same = (at >= 0) & (running.restarts[at] == records.restarts[rows]) if len(running) else at >= 0
    started_s[rows[same]] = running.started_s[at[same]]
    rows = np.flatnonzero(state == KeptState.OPEN)
    # The last run to end of each job decides: later rows of an outcome table win.
    at = _at(ended.job_id[::-1], ended.first_submit_s[::-1], records.job_id[rows], records.first_submit_s[rows])
    rows, at = rows[at >= 0], len(ended) - 1 - at[at >= 0]
    last = ~np.isin(ended.state[at], _NOT_THE_LAST) & np.isfinite(ended.started_s[at])
    good = last & (ended.restart[at] == records.restarts[rows])
    state[rows] = np.where(good, int(KeptState.SETTLED), int(KeptState.VOID))
    started_s[rows[good]], ended_s[rows[good]] = ended.started_s[at[good]], ended.ended_s[at[good]]
    changed = (state != records.state) | (np.isfinite(started_s) & np.isnan(records.started_s))
    return replace(records, started_s=started_s, ended_s=ended_s, state=state), changed


def without_lost(
    records: PredictionRecords, waiting: JobTable, running: JobTable
) -> tuple[PredictionRecords, BoolArray]:
    """Void *records* of jobs that neither wait nor run and whose end was not observed; return the changed rows too."""
    there = np.isin(records.job_id, waiting.job_id) | np.isin(records.job_id, running.job_id)
    lost = (records.state == KeptState.OPEN) & ~there
    return replace(records, state=np.where(lost, int(KeptState.VOID), records.state)), lost


def recent(records: PredictionRecords, now_s: float) -> PredictionRecords:
    """Return *records* without closed predictions that are too old to count; open ones all stay."""
    closed = np.flatnonzero(records.state != KeptState.OPEN)
    closed = closed[records.made_s[closed] >= now_s - OLDEST_S][-MOST_CLOSED:]
    stays = records.state == KeptState.OPEN
    stays[closed] = True
    return records if stays.all() else records.take(stays)


def _with_slurms(records: PredictionRecords, raw: PredictionTable) -> tuple[PredictionRecords, BoolArray]:
    """Return *records* with Slurm's start estimates filled in where they had none, and the changed rows."""
    slurm_s = records.slurm_start_s.copy()
    rows = np.flatnonzero((records.state == KeptState.OPEN) & np.isnan(records.started_s) & np.isnan(slurm_s))
    at = _at(raw.job_id, raw.first_submit_s, records.job_id[rows], records.first_submit_s[rows])
    rows, at = rows[at >= 0], at[at >= 0]
    same = (raw.restarts[at] == records.restarts[rows]) & np.isfinite(raw.slurm_start_s[at])
    slurm_s[rows[same]] = raw.slurm_start_s[at[same]]
    changed = np.zeros(len(records), dtype=np.bool_)
    changed[rows[same]] = True
    return replace(records, slurm_start_s=slurm_s), changed


def _numbers(records: PredictionRecords, raw: PredictionTable) -> IntArray:
    """Number each prediction within its job if it is to be recorded, from 0; -1 where too little changed."""
    rows = np.flatnonzero(records.state == KeptState.OPEN)[::-1]  # the newest first
    at = _at(records.job_id[rows], records.first_submit_s[rows], raw.job_id, raw.first_submit_s)
    if not len(rows):
        return np.zeros(len(raw), dtype=np.int64)
    last = rows[at]
    moved_s = np.abs(raw.finish_s - records.raw_finish_s[last])
    much = moved_s > np.maximum(CHANGED_S, CHANGED * np.abs(records.raw_finish_s[last] - raw.made_s))
    again = (at >= 0) & much & (records.restarts[last] == raw.restarts) & (raw.made_s > records.made_s[last])
    return np.where(at < 0, 0, np.where(again, records.number[last] + 1, -1))


def _at(job_id: IntArray, first_s: FloatArray, wanted: IntArray, wanted_s: FloatArray) -> IntArray:
    """Return the first row of each wanted job, by id and first submission; -1 where it is not there."""
    at = places_of(wanted, job_id, first=True)
    here = np.flatnonzero(at >= 0)
    apart_s = np.abs(np.nan_to_num(first_s[at[here]]) - np.nan_to_num(wanted_s[here]))
    at[here[~(apart_s < 1.0)]] = -1
    return at
