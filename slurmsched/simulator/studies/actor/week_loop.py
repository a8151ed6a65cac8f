"""Replays for training: a compiled event loop with EASY backfill on one pool of GPUs, by the scores of an actor.

It does what ``simulate`` does with the selection ``easy`` and the placement ``pool``, some fifty times as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....cluster.columns import FloatArray, IntArray
from ....policies.compiled import compiled, inner
from ....policies.ordering.mlfs import LEAST_LEFT, MOST_S, NEUTRAL_URGENCY
from ....policies.ordering.mlfs_rl import FEATURES, Actor, feature_rows, score_rows
from ...workload.workload import Workload

SELECTION = "easy"  #: as slurmctld starts jobs: by order, behind a reservation for the first that must wait
_feature_rows, _score_rows = inner(feature_rows), inner(score_rows)


class WeekJobs(NamedTuple):
    """What the loop knows of the jobs, in order of submission."""

    submit_s: FloatArray
    runtime_s: FloatArray
    estimate_s: FloatArray
    limit_s: FloatArray
    gpus: FloatArray
    deadline_s: FloatArray
    urgency: FloatArray


class Decisions(NamedTuple):
    """Features of the jobs that waited at each decision between several."""

    rows: FloatArray  #: of features, decision by decision
    first: IntArray  #: the first row of each decision, and at last the number of all rows


class Played(NamedTuple):
    """One replay."""

    start_s: FloatArray
    end_s: FloatArray
    decisions: Decisions


def play(jobs: Workload, gpus: int, actor: Actor, kept: int = 0) -> Played:
    """Replay *jobs* on so many *gpus* by the scores of *actor*, and keep the first decisions up to *kept* rows."""
    week = WeekJobs(
        jobs.submit_s,
        jobs.runtime_s,
        np.clip(np.nan_to_num(jobs.estimate_s, nan=MOST_S), 1.0, MOST_S),
        jobs.time_limit_s,
        jobs.gpus.astype(np.float64),
        jobs.deadline_s,
        np.nan_to_num(jobs.urgency, nan=NEUTRAL_URGENCY),
    )
    rows, first = np.empty((kept, len(FEATURES))), np.zeros(kept + 1, dtype=np.int64)
    start_s, end_s, many = _play(week, float(gpus), actor.weights, rows, first)
    return Played(start_s, end_s, Decisions(rows[: first[many]], first[: many + 1]))


@compiled
def _play(
    jobs: WeekJobs, total: float, weights: tuple[FloatArray, ...], rows: FloatArray, first: IntArray
) -> tuple[FloatArray, FloatArray, int]:
    """Return when each job started and ended, and the number of decisions in *rows*."""
    count = len(jobs.submit_s)
    start_s, end_s = np.full(count, np.nan), np.full(count, np.inf)
    waiting, running = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    waits, runs, come, free, many, keeps = 0, 0, 0, total, 0, True
    while come < count or runs:
        now_s = jobs.submit_s[come] if come < count else np.inf
        for at in range(runs):
            now_s = min(now_s, end_s[running[at]])
        left = 0
        for at in range(runs):
            if end_s[running[at]] <= now_s:
                free += jobs.gpus[running[at]]
            else:
                running[left] = running[at]
                left += 1
        runs = left
        while come < count and jobs.submit_s[come] <= now_s:
            waiting[waits] = come
            waits, come = waits + 1, come + 1
        if waits == 0 or jobs.gpus[waiting[:waits]].min() > free:  # whatever the order is, no job starts
            continue
        found = _features(jobs, start_s, waiting[:waits], running[:runs], now_s, free, total)
        keeps = keeps and (waits == 1 or first[many] + waits <= len(rows))
        if keeps and waits > 1:
            rows[first[many] : first[many] + waits] = found
            many += 1
            first[many] = first[many - 1] + waits
        order = np.argsort(-_score_rows(found, *weights), kind="mergesort")
        before = runs
        runs, free = _start(jobs, start_s, waiting[:waits][order], running, runs, now_s, free)
        for at in range(before, runs):
            end_s[running[at]] = now_s + jobs.runtime_s[running[at]]
        left = 0
        for at in range(waits):
            if np.isnan(start_s[waiting[at]]):
                waiting[left] = waiting[at]
                left += 1
        waits = left
    return start_s, end_s, many


@inner
def _features(
    jobs: WeekJobs,
    start_s: FloatArray,
    waiting: IntArray,
    running: IntArray,
    now_s: float,
    free: float,
    total: float,
) -> FloatArray:
    """Return the features of the *waiting* jobs."""
    estimate_s = jobs.estimate_s[running]
    left_s = np.maximum(estimate_s - (now_s - start_s[running]), LEAST_LEFT * estimate_s)
    order = np.argsort(left_s, kind="mergesort")
    unknown = np.ones(len(waiting))
    return _feature_rows(
        jobs.estimate_s[waiting],
        now_s - jobs.submit_s[waiting],
        jobs.deadline_s[waiting] - now_s,
        jobs.urgency[waiting],
        unknown,
        jobs.gpus[waiting],
        free,
        total,
        left_s[order],
        jobs.gpus[running][order],
    )


@inner
def _start(
    jobs: WeekJobs, start_s: FloatArray, line: IntArray, running: IntArray, runs: int, now_s: float, free: float
) -> tuple[int, float]:
    """Start jobs in *line*, and behind the first that must wait those that do not delay it by time limits."""
    blocked, kept_s, spare = False, np.inf, 0.0
    for row in line:
        gpus = jobs.gpus[row]
        if gpus <= free and (not blocked or now_s + jobs.limit_s[row] <= kept_s or gpus <= spare):
            if blocked and now_s + jobs.limit_s[row] > kept_s:
                spare -= gpus
            start_s[row] = now_s
            running[runs] = row
            runs, free = runs + 1, free - gpus
        elif not blocked:
            blocked = True
            kept_s, spare = _reservation(jobs, start_s, running[:runs], gpus, free)
    return runs, free


@inner
def _reservation(
    jobs: WeekJobs, start_s: FloatArray, running: IntArray, gpus: float, free: float
) -> tuple[float, float]:
    """Return when a job of so many *gpus* can start by time limits, and the GPUs that it leaves free then."""
    ends_s = start_s[running] + jobs.limit_s[running]
    kept_s = np.inf
    for at in np.argsort(ends_s, kind="mergesort"):
        if free >= gpus and ends_s[at] > kept_s:
            break
        free += jobs.gpus[running[at]]
        kept_s = ends_s[at]
    return kept_s, free - gpus
