"""Requests that smaller or shorter would have started sooner, by jobs that asked for that much at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.job_kind import bucket
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.usage import NO_KEPT_USAGE
from ..models.requests.suggestions import Suggester
from .answer import SoonerRequest
from .gpu_time import GpuTime

MOST = 5
KINDS_MOST = 200  #: that are looked at, those that waited longest in all
STARTS_MOST = 50  #: of a kind, the latest
BESIDE_S = 1800.0  #: by which a job may have come before another to be compared with it
LEAST = 5  #: jobs that a wait is compared with
SHORTER = 0.8  #: a limit counts as too long where less than that share of it would do
MEASURED = 0.9  #: share of the GPU time of a job that was measured, from which its GPUs are known

Kind = tuple[str, str, str, int, float]


@dataclass(frozen=True, eq=False)
class _Waits:
    """Waits of first starts in one partition, by the moment from which they were eligible."""

    eligible_s: FloatArray
    wait_s: FloatArray
    gpus: IntArray
    limit_s: FloatArray

    @classmethod
    def of(cls, starts: OutcomeTable) -> _Waits:
        by_time = starts.take(np.argsort(starts.eligible_s, kind="stable"))
        wait_s = np.maximum(by_time.started_s - by_time.eligible_s, 0.0)
        return cls(by_time.eligible_s, wait_s, by_time.gpus, by_time.time_limit_s)

    def alike(self, from_s: float, until_s: float, gpus: int, limit_s: float) -> FloatArray:
        """Return the waits of jobs that came in [from_s, until_s] and asked for no more than this; GPUs, or none."""
        low, high = np.searchsorted(self.eligible_s, (from_s, until_s))
        here = slice(int(low), int(high))
        fits = (self.gpus[here] <= gpus) & (self.limit_s[here] <= limit_s) & ((self.gpus[here] > 0) == (gpus > 0))
        return np.asarray(self.wait_s[here][fits])


def sooner_requests(runs: OutcomeTable, time: GpuTime, everybody: OutcomeTable, since_s: float) -> list[SoonerRequest]:
    """Return the five kinds of requests among *runs* that waited longest beyond jobs that asked for what they needed.

    *everybody* has the runs of all users in the span. What a kind needs is the limit that covers 95 % of such runs, and
    the GPUs that processes used. It is no play of the queue: the waits of others at the same time are the evidence.
    """
    starts = np.flatnonzero((runs.restart == 0) & (runs.started_s >= since_s) & np.isfinite(runs.eligible_s))
    if not len(starts):
        return []
    kinds: dict[Kind, list[int]] = defaultdict(list)
    for row in starts.tolist():
        limit_s = float(runs.time_limit_s[row])
        kinds[runs.user[row], bucket(runs.name[row]), runs.partition[row], int(runs.gpus[row]), limit_s].append(row)
    waited_s = runs.started_s - runs.eligible_s
    longest = sorted(kinds, key=lambda kind: -float(waited_s[kinds[kind]].sum()))[:KINDS_MOST]
    suggester, waits = Suggester(everybody, NO_KEPT_USAGE), dict(_by_partition(everybody, since_s))
    found = [
        one
        for kind in longest
        if kind[2] in waits
        for one in _compared(kind, kinds[kind][-STARTS_MOST:], runs, time, suggester, waits[kind[2]])
    ]
    return sorted(found, key=lambda one: (-one["saved"], one["user"], one["name"]))[:MOST]


def _by_partition(everybody: OutcomeTable, since_s: float) -> Iterator[tuple[str, _Waits]]:
    first = (everybody.restart == 0) & (everybody.started_s >= since_s) & np.isfinite(everybody.eligible_s)
    for code, name in enumerate(everybody.partition.names):
        rows = first & (everybody.partition.codes == code)
        if rows.any():
            yield name, _Waits.of(everybody.take(rows))


def _compared(
    kind: Kind, rows: list[int], runs: OutcomeTable, time: GpuTime, suggester: Suggester, waits: _Waits
) -> Iterator[SoonerRequest]:
    user, name, partition, gpus, limit_s = kind
    needs_s = suggester.suggest(user, name, gpus)["limit_s"]
    short = limit_s if needs_s is None or needs_s > SHORTER * limit_s else needs_s
    small = _gpus_used(gpus, rows, time)
    if short == limit_s and small == gpus:
        return
    saved_s, others, beside_s = 0.0, 0, []
    for row in rows:
        eligible_s, started_s = float(runs.eligible_s[row]), float(runs.started_s[row])
        alike = waits.alike(eligible_s - BESIDE_S, started_s, small, short)
        if len(alike) >= LEAST:
            beside_s.append(float(np.median(alike)))
            others += len(alike)
            saved_s += max(0.0, started_s - eligible_s - beside_s[-1])
    if not saved_s:
        return
    yield {
        "user": user,
        "name": name,
        "partition": partition,
        "gpus": gpus,
        "limit_s": limit_s,
        "starts": len(rows),
        "wait_s": float(np.median(runs.started_s[rows] - runs.eligible_s[rows])),
        "gpus_needed": small,
        "limit_needed_s": short,
        "others": others,
        "others_wait_s": float(np.median(beside_s)),
        "saved": saved_s / 3600.0,
    }


def _gpus_used(gpus: int, rows: list[int], time: GpuTime) -> int:
    """Return how many of its GPUs a kind of jobs uses: all, where too little was measured."""
    held_s, measured_s = float(time.held_s[rows].sum()), float(time.measured_s[rows].sum())
    if not held_s or measured_s < MEASURED * held_s:
        return gpus
    most = float(np.max(1.0 - time.no_process_s[rows] / np.maximum(time.measured_s[rows], 1.0)))
    return min(gpus, max(1, int(np.ceil(gpus * most - 0.05))))
