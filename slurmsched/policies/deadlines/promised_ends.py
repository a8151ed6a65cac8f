"""Promised ends: the moment for which each promised job runs. A lost promise gives way to a later step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, places_of
from ...cluster.jobs import JobTable
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.records.solved_starts import SolvedStarts
from .lease_terms import LeaseTerms
from .remaining_work import RemainingWork
from .value_steps import SOFT_STEPS, steps_of

Steps = Sequence[tuple[float, float]]


def promised_ends(
    now_s: float,
    jobs: JobTable,
    work: RemainingWork,
    promises: PromiseTable,
    terms: LeaseTerms,
    usual: Steps = SOFT_STEPS,
) -> FloatArray:
    """Return the moment by which each of *jobs* is to end; infinite for a job without a promise.

    A job whose promise is probably lost runs for its next step that it can reach; one without such a step counts as
    having none. *usual* are the steps of a soft deadline without its own.
    """
    ends_s = np.full(len(jobs), np.inf)
    rows, places = with_promise(jobs, promises)
    ends_s[rows] = promises.promised_s[places]
    chances = work.take(rows).chances_late(now_s, ends_s[rows, None])[:, 0]
    for row in rows[chances > terms.lost].tolist():
        steps = np.array([moment_s for moment_s, worth in steps_of(jobs, row, usual) if worth > 0])
        reachable = work.take(np.array([row])).chances_late(now_s, steps[None, :])[0] <= terms.lost
        ends_s[row] = steps[reachable].min(initial=np.inf)
    return ends_s


def with_promise(jobs: JobTable, promises: PromiseTable) -> tuple[IntArray, IntArray]:
    """Return the rows of *jobs* with a promise that is open or broken, and its row in *promises*."""
    places = np.flatnonzero((promises.state == PromiseState.OPEN) | (promises.state == PromiseState.BROKEN))
    at = places_of(jobs.job_id, promises.job_id[places])
    rows = np.flatnonzero(at >= 0)
    return rows, places[at[rows]]


def planned_before(promises: PromiseTable) -> SolvedStarts:
    """Return the starts of the last plan of the open *promises*."""
    rows = np.flatnonzero(promises.open & np.isfinite(promises.planned_s))
    return SolvedStarts(promises.job_id[rows], promises.planned_s[rows], np.zeros(len(rows)))


def with_plan(promises: PromiseTable, job_id: IntArray, starts_s: FloatArray) -> PromiseTable:
    """Return *promises* with the planned starts of the jobs *job_id*; those without a place keep the earlier one."""
    start_of = dict(zip(job_id.tolist(), starts_s.tolist(), strict=True))
    planned_s = promises.planned_s.copy()
    for row in np.flatnonzero(promises.open).tolist():
        start_s = start_of.get(int(promises.job_id[row]), np.nan)
        if np.isfinite(start_s):
            planned_s[row] = start_s
    return replace(promises, planned_s=planned_s)


def hopeful(
    now_s: float, jobs: JobTable, work: RemainingWork, ends_s: FloatArray, least: float, slack_s: float
) -> BoolArray:
    """Select jobs without a promise that make a deadline with a probability of *least*, and have no time to spare.

    *ends_s* are the promised ends; less than *slack_s* to spare is none.
    """
    rows = np.flatnonzero(np.isfinite(jobs.deadline_s) & ~np.isfinite(ends_s))
    selected = np.zeros(len(jobs), dtype=np.bool_)
    if not len(rows):
        return selected
    moments_s = _moments(jobs, rows)
    some = work.take(rows)
    reachable = some.chances_late(now_s, moments_s) <= 1.0 - least
    first_s = np.where(reachable, moments_s, np.inf).min(axis=1)
    selected[rows] = first_s - now_s - some.left_s < slack_s
    return selected


def next_step_s(now_s: float, jobs: JobTable, left_s: FloatArray) -> FloatArray:
    """Return the first step of its deadline that each job makes if it runs for *left_s* from now on; else infinity.

    A job whose remaining time is not known makes its first step until that has passed.
    """
    first_s, rows = np.full(len(jobs), np.inf), np.flatnonzero(np.isfinite(jobs.deadline_s))
    if len(rows):
        moments_s = _moments(jobs, rows)
        ends_s = now_s + np.nan_to_num(np.maximum(left_s[rows], 0.0))
        first_s[rows] = np.where(moments_s >= ends_s[:, None], moments_s, np.inf).min(axis=1)
    return first_s


def _moments(jobs: JobTable, rows: IntArray) -> FloatArray:
    """Return the steps of jobs (job x step) that are worth something; minus infinity where there is none."""
    steps = {
        place: [moment_s for moment_s, worth in steps_of(jobs, row) if worth > 0]
        for place, row in enumerate(rows.tolist())
        if jobs.soft[row]
    }
    moments_s = np.full((len(rows), max([1, *map(len, steps.values())])), -np.inf)
    moments_s[:, 0] = jobs.deadline_s[rows]
    for place, own in steps.items():
        moments_s[place, : len(own)] = own
    return moments_s
