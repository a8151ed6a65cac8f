"""Runs and jobs: accounting has a row for every start of a job, a workload one row for the job."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from .cleaning import Raw

REUSED_S = 86400.0  #: an id that returns so long after its last run ended belongs to another job


def chains(job: IntArray, user: IntArray, submit_s: FloatArray, ended_s: FloatArray) -> IntArray:
    """Number the jobs behind rows: runs of one id and user, submitted again soon after the last ended, are one job."""
    order = np.lexsort((submit_s, user, job))
    new = np.ones(len(order), dtype=np.bool_)
    same = (np.diff(job[order]) == 0) & (np.diff(user[order]) == 0)
    # Rows of one id that overlap are tasks of an array under one number, not runs of one job.
    apart_s = submit_s[order][1:] - ended_s[order][:-1]
    new[1:] = ~(same & (apart_s <= REUSED_S) & (apart_s >= -1))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(new)
    return numbers


def only_last_runs(raw: Raw, job: IntArray, run: FloatArray, arrival_s: FloatArray) -> None:
    """Drop all runs of a job but the last by *run*; the job arrives when its first run did."""
    order = np.lexsort((run, job))
    sorted_job = job[order]
    first, last = np.ones(len(order), dtype=np.bool_), np.ones(len(order), dtype=np.bool_)
    if len(order):
        first[1:] = np.diff(sorted_job) != 0
        last[:-1] = first[1:]
    starts = np.flatnonzero(first)[np.cumsum(first) - 1]
    submit_s = np.empty(len(order))
    submit_s[order] = arrival_s[order][starts]
    raw.columns["submit_s"] = submit_s
    is_last: BoolArray = np.zeros(len(order), dtype=np.bool_)
    is_last[order[last]] = True
    raw.only(is_last, "requeues", "{earlier runs} left out of jobs that were queued again: the last run counts")


def arrivals(raw: Raw, submit_s: FloatArray, eligible_s: FloatArray, started_s: FloatArray) -> FloatArray:
    """Return when jobs joined the queue: submitted, and free of dependencies, begin times and holds of their owner."""
    # A requeue and a begin time leave an eligible time after the start. Where it is unknown a job joined at once.
    eligible_s = np.minimum(eligible_s, np.where(np.isnan(started_s), np.inf, started_s))
    late = eligible_s > submit_s
    raw.note("eligible", int(np.count_nonzero(late)), "{jobs} became eligible after submission: arriving only then")
    return np.fmax(submit_s, eligible_s)
