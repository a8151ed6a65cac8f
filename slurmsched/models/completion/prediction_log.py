"""Which predictions are kept, and how they meet what came of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.prediction_records import KeptState, KeptTable, kept_table
from ...cluster.records.predictions import PredictionTable
from .completion_calibration import keepable, scales

CHANGED, CHANGED_S = 0.25, 120.0
"""A prediction is kept again where its finish moves by more than that part of the time to it, and that many seconds."""

MOST_OF_A_JOB = 5
MOST_CLOSED, OLDEST_S = 20_000, 31 * 86400.0
"""What is kept at hand of predictions that came true or not."""

_NOT_THE_LAST = (JobState.REQUEUED, JobState.PREEMPTED, JobState.NODE_FAIL)


def with_new(
    kept: KeptTable, raw: PredictionTable, told: PredictionTable, *, delays: bool = False
) -> tuple[KeptTable, BoolArray]:
    """*kept* with what is worth it of *told*, whose play-forward is *raw*, and which rows are new or changed.

    *delays* says whether we delay jobs for promises now. Slurm says nothing of a job before its backfill has looked at
    it. What it says first then counts, beside ours of before.
    """
    kept, changed = _with_slurms(kept, raw)
    number = _numbers(kept, raw)
    rows = np.flatnonzero(keepable(raw.kind) & raw.said & (number >= 0) & (number < MOST_OF_A_JOB))
    ours, some = told.take(rows), raw.take(rows)
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
    )
    return kept.joined(fresh), np.append(changed, np.ones(len(fresh), dtype=np.bool_))


def met(kept: KeptTable, running: JobTable, ended: OutcomeTable) -> tuple[KeptTable, BoolArray]:
    """*kept* after jobs were seen *running* and runs have *ended*, and which rows that changed."""
    started_s, ended_s, state = kept.started_s.copy(), kept.ended_s.copy(), kept.state.copy()
    rows = np.flatnonzero((state == KeptState.OPEN) & np.isnan(started_s))
    at = _at(running.job_id, running.first_submit_s, kept.job_id[rows], kept.first_submit_s[rows])
    same = (at >= 0) & (running.restarts[at] == kept.restarts[rows]) if len(running) else at >= 0
    started_s[rows[same]] = running.started_s[at[same]]
    rows = np.flatnonzero(state == KeptState.OPEN)
    # The last run to end of each job decides: later rows of an outcome table win.
    at = _at(ended.job_id[::-1], ended.first_submit_s[::-1], kept.job_id[rows], kept.first_submit_s[rows])
    rows, at = rows[at >= 0], len(ended) - 1 - at[at >= 0]
    last = ~np.isin(ended.state[at], _NOT_THE_LAST) & np.isfinite(ended.started_s[at])
    good = last & (ended.restart[at] == kept.restarts[rows])
    state[rows] = np.where(good, int(KeptState.SETTLED), int(KeptState.VOID))
    started_s[rows[good]], ended_s[rows[good]] = ended.started_s[at[good]], ended.ended_s[at[good]]
    changed = (state != kept.state) | (np.isfinite(started_s) & np.isnan(kept.started_s))
    return replace(kept, started_s=started_s, ended_s=ended_s, state=state), changed


def without_lost(kept: KeptTable, waiting: JobTable, running: JobTable) -> tuple[KeptTable, BoolArray]:
    """*kept* with those of jobs void that neither wait nor run nor were seen to end, and which those are."""
    there = np.isin(kept.job_id, waiting.job_id) | np.isin(kept.job_id, running.job_id)
    lost = (kept.state == KeptState.OPEN) & ~there
    return replace(kept, state=np.where(lost, int(KeptState.VOID), kept.state)), lost


def recent(kept: KeptTable, now_s: float) -> KeptTable:
    """*kept* without what is too old to count; predictions that are open all stay."""
    closed = np.flatnonzero(kept.state != KeptState.OPEN)
    closed = closed[kept.made_s[closed] >= now_s - OLDEST_S][-MOST_CLOSED:]
    stays = kept.state == KeptState.OPEN
    stays[closed] = True
    return kept if stays.all() else kept.take(stays)


def _with_slurms(kept: KeptTable, raw: PredictionTable) -> tuple[KeptTable, BoolArray]:
    """*kept* with Slurm's estimates of starts where it had none before, and which rows those are."""
    slurm_s = kept.slurm_start_s.copy()
    rows = np.flatnonzero((kept.state == KeptState.OPEN) & np.isnan(kept.started_s) & np.isnan(slurm_s))
    at = _at(raw.job_id, raw.first_submit_s, kept.job_id[rows], kept.first_submit_s[rows])
    rows, at = rows[at >= 0], at[at >= 0]
    same = (raw.restarts[at] == kept.restarts[rows]) & np.isfinite(raw.slurm_start_s[at])
    slurm_s[rows[same]] = raw.slurm_start_s[at[same]]
    changed = np.zeros(len(kept), dtype=np.bool_)
    changed[rows[same]] = True
    return replace(kept, slurm_start_s=slurm_s), changed


def _numbers(kept: KeptTable, raw: PredictionTable) -> IntArray:
    """Of each prediction its number if it is to be kept: 0 for a job that has none, -1 where it changed little."""
    rows = np.flatnonzero(kept.state == KeptState.OPEN)[::-1]  # the newest first
    at = _at(kept.job_id[rows], kept.first_submit_s[rows], raw.job_id, raw.first_submit_s)
    if not len(rows):
        return np.zeros(len(raw), dtype=np.int64)
    last = rows[at]
    moved_s = np.abs(raw.finish_s - kept.raw_finish_s[last])
    much = moved_s > np.maximum(CHANGED_S, CHANGED * np.abs(kept.raw_finish_s[last] - raw.made_s))
    again = (at >= 0) & much & (kept.restarts[last] == raw.restarts) & (raw.made_s > kept.made_s[last])
    return np.where(at < 0, 0, np.where(again, kept.number[last] + 1, -1))


def _at(job_id: IntArray, first_s: FloatArray, wanted: IntArray, wanted_s: FloatArray) -> IntArray:
    """The first row of each wanted job, by id and first submission; -1 where it is not there."""
    if not len(job_id):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(job_id, kind="stable")
    at = order[np.minimum(np.searchsorted(job_id[order], wanted), len(order) - 1)]
    same = (job_id[at] == wanted) & (np.abs(np.nan_to_num(first_s[at]) - np.nan_to_num(wanted_s)) < 1.0)
    return np.where(same, at, -1)
