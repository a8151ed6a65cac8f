"""Replays for training: a compiled event loop with EASY backfill on equal nodes, by the scores of an actor.

It does what ``simulate`` does with the selection ``easy``, some fifty times as fast. Nodes of several sizes count as
one pool of GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.outlook.remaining import MIDDLE, left_s
from ...policies.compiled import compiled, inner
from ...policies.ordering.mlfs import MOST_S, NEUTRAL_URGENCY
from ...policies.ordering.mlfs_rl import FEATURES, Actor, feature_rows, score_rows
from ...policies.placement import CONSOLIDATE, place
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.workload.workload import Workload

SELECTION = "easy"  #: as slurmctld starts jobs: by order, behind a reservation for the first that must wait
_feature_rows, _score_rows, _left_s = inner(feature_rows), inner(score_rows), inner(left_s)


class WeekJobs(NamedTuple):
    """What the loop knows of the jobs, in order of submission."""

    submit_s: FloatArray
    runtime_s: FloatArray
    estimate_s: FloatArray
    limit_s: FloatArray
    gpus: FloatArray
    deadline_s: FloatArray
    urgency: FloatArray


class _Cluster(NamedTuple):
    """The nodes of the cluster, and scratch."""

    free: IntArray  #: GPUs of each node
    size: int  #: of a node
    held: IntArray  #: GPUs of each job on each node
    spare: IntArray  #: GPUs that are free when the reservation begins, without its own
    room: IntArray
    taken: IntArray
    chosen: IntArray
    parts: IntArray


class Decisions(NamedTuple):
    """Features of the jobs that waited at each decision between several."""

    rows: FloatArray  #: of features, decision by decision
    first: IntArray  #: the first row of each decision, and at last the number of all rows

    @classmethod
    def of(cls, several: Sequence[Decisions]) -> Decisions:
        """Return the decisions of *several* replays, one after the other."""
        sizes = np.concatenate([np.diff(one.first) for one in several])
        return cls(np.concatenate([one.rows for one in several]), np.concatenate([[0], np.cumsum(sizes)]))


class Played(NamedTuple):
    """One replay."""

    start_s: FloatArray
    end_s: FloatArray
    decisions: Decisions


def play(jobs: Workload, fleet: ClusterSpec, actor: Actor, kept: int = 0) -> Played:
    """Replay *jobs* on *fleet* by the scores of *actor*, and keep the first decisions up to *kept* rows."""
    free = fleet.nodes.gpus.copy() if fleet.equal else np.array([fleet.total])
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
    start_s, end_s, many = _play(week, free, actor.weights, rows, first)
    return Played(start_s, end_s, Decisions(rows[: first[many]], first[: many + 1]))


@compiled
def _play(
    jobs: WeekJobs, nodes: IntArray, weights: tuple[FloatArray, ...], rows: FloatArray, first: IntArray
) -> tuple[FloatArray, FloatArray, int]:
    """Return when each job started and ended, and the number of decisions in *rows*. *nodes* have so many free GPUs."""
    count, total = len(jobs.submit_s), float(nodes.sum())
    held = np.zeros((count, len(nodes)), dtype=np.int64)
    spare, room, taken, chosen, parts = (
        np.zeros_like(nodes),
        np.zeros_like(nodes),
        np.zeros_like(nodes),
        np.zeros_like(nodes),
        np.zeros_like(nodes),
    )
    cluster = _Cluster(nodes, nodes.max(), held, spare, room, taken, chosen, parts)
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
                nodes += held[running[at]]
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
        runs, free = _start(jobs, cluster, start_s, waiting[:waits][order], running, runs, now_s, free)
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
    freed_s = _left_s(estimate_s, now_s - start_s[running], MIDDLE, np.inf)
    order = np.argsort(freed_s, kind="mergesort")
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
        freed_s[order],
        jobs.gpus[running][order],
    )


@inner
def _start(
    jobs: WeekJobs,
    cluster: _Cluster,
    start_s: FloatArray,
    line: IntArray,
    running: IntArray,
    runs: int,
    now_s: float,
    free: float,
) -> tuple[int, float]:
    """Start jobs in *line*, and behind the first that must wait those that do not delay it by time limits."""
    blocked, kept_s = False, np.inf
    for row in line:
        gpus = jobs.gpus[row]
        if gpus > free and blocked:
            continue
        over = blocked and now_s + jobs.limit_s[row] > kept_s  # its limit ends behind the reservation
        cluster.room[:] = np.minimum(cluster.free, cluster.spare) if over else cluster.free
        if _found(cluster, gpus):
            if over:
                cluster.spare[:] -= cluster.taken
            start_s[row] = now_s
            cluster.held[row] = cluster.taken
            cluster.free[:] -= cluster.taken
            running[runs] = row
            runs, free = runs + 1, free - gpus
        elif not blocked:
            blocked = True
            kept_s = _reserve(jobs, cluster, start_s, running[:runs], gpus)
    return runs, free


@inner
def _found(cluster: _Cluster, gpus: float) -> bool:
    """Find a place in the room of the nodes; ``taken`` is what a job of so many *gpus* takes there."""
    cluster.taken[:] = 0
    if cluster.room.sum() < gpus:
        return False
    count = place(CONSOLIDATE, cluster.room, cluster.size, int(gpus), cluster.chosen, cluster.parts)
    for at in range(count):
        cluster.taken[cluster.chosen[at]] = cluster.parts[at]
    return bool(count > 0)


@inner
def _reserve(jobs: WeekJobs, cluster: _Cluster, start_s: FloatArray, running: IntArray, gpus: float) -> float:
    """Return when a job of so many *gpus* can start by time limits; ``spare`` is what it leaves free then."""
    ends_s = start_s[running] + jobs.limit_s[running]
    order = np.argsort(ends_s, kind="mergesort")
    cluster.spare[:] = cluster.free
    kept_s, at = np.inf, 0
    while at < len(order):
        kept_s = ends_s[order[at]]
        while at < len(order) and ends_s[order[at]] <= kept_s:
            cluster.spare[:] += cluster.held[running[order[at]]]
            at += 1
        cluster.room[:] = cluster.spare
        if _found(cluster, gpus):
            cluster.spare[:] -= cluster.taken
            break
    return kept_s
