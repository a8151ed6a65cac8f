"""Running jobs by their keys, the worst first, in heaps for loops that compile.

A key grows with the time that its job runs, by the job's slope: jobs of one slope keep their mutual order. So each
slope has a heap of what keys would have been at the origin of time. Entries of runs that are over are void; they go
once they are met, or when a heap is full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import borrowing
from .heaps import pop, push

NONE = -1
SLOPES, IN_USE = 0, 1
MOST_SLOPES = 24
ALIKE = 1e-9  #: relative difference of slopes that count as one
ROUNDING = 1e-9  #: relative bound on the rounding of keys
JOBS = 1 << 32  #: an entry is the number of the run times this plus the row


class RankedRuns(NamedTuple):
    """A heap for each slope, one line each; their first entries are the worst."""

    slopes: FloatArray
    apart: FloatArray  #: by how much the slopes of its jobs differ from it at most
    keys: FloatArray  #: [slope, entry] negated, at the origin
    entries: IntArray  #: [slope, entry]
    length: IntArray  #: per slope
    present: IntArray  #: the valid entry of each job
    counts: IntArray  #: the number of SLOPES; whether all running jobs are IN_USE, that is, entered
    origin_s: FloatArray  #: one time


def no_ranked_runs(jobs: int = 0, running: int = 0, origin_s: float = 0.0) -> RankedRuns:
    """Return empty heaps for so many *jobs*, of which so many run at once; without jobs they are never in use."""
    room = 2 * running + 2 if jobs else 0
    return RankedRuns(
        np.zeros(MOST_SLOPES),
        np.zeros(MOST_SLOPES),
        np.empty((MOST_SLOPES, room)),
        np.empty((MOST_SLOPES, room), dtype=np.int64),
        np.zeros(MOST_SLOPES, dtype=np.int64),
        np.zeros(jobs, dtype=np.int64),
        np.array([0, 1 if jobs else 0]),
        np.array([origin_s]),
    )


@borrowing
def forget_runs(ranked: RankedRuns) -> None:
    """Remove all entries, before those of other keys."""
    ranked.length[:] = 0
    ranked.counts[SLOPES], ranked.counts[IN_USE] = 0, 1 if len(ranked.present) else 0


@borrowing
def enter_run(ranked: RankedRuns, state: IntArray, runs: int, row: int, key: float, slope: float, now_s: float) -> None:
    """Enter a job with its *key* at *now_s*, in place of its entry before; *runs* is the state of those that run."""
    at = _heap_of(ranked, slope)
    if at == NONE:
        ranked.counts[IN_USE] = 0
        return
    if ranked.length[at] == ranked.keys.shape[1]:
        _remove_void(ranked, state, runs, at)
    ranked.present[row] = (ranked.present[row] // JOBS + 1) * JOBS + row
    push_back(ranked, at, slope * (now_s - ranked.origin_s[0]) - key, ranked.present[row])


@borrowing
def push_back(ranked: RankedRuns, at: int, key: float, entry: int) -> None:
    """Enter what was in the heap before."""
    ranked.length[at] = push(ranked.keys[at], ranked.entries[at], 0, ranked.length[at], key, entry)


@borrowing
def worst(ranked: RankedRuns, state: IntArray, runs: int, now_s: float) -> tuple[int, float]:
    """Return the heap whose first job has the largest key at *now_s*, and this key but for rounding; NONE for none."""
    best, best_key = NONE, -np.inf
    for at in range(ranked.counts[SLOPES]):
        while ranked.length[at] and not _is_valid(ranked, state, runs, ranked.entries[at, 0]):
            take_worst(ranked, at)
        if ranked.length[at]:
            key = ranked.slopes[at] * (now_s - ranked.origin_s[0]) - ranked.keys[at, 0]
            if best == NONE or key > best_key:
                best, best_key = at, key
    return best, best_key


@borrowing
def take_worst(ranked: RankedRuns, at: int) -> None:
    """Remove the first entry of a heap."""
    ranked.length[at] = pop(ranked.keys[at], ranked.entries[at], 0, ranked.length[at])


@borrowing
def inexact_by(ranked: RankedRuns, key: float, now_s: float) -> float:
    """Return a bound on the difference between keys about *key* and those that ``worst`` returns."""
    most, since_s = abs(key), abs(now_s - ranked.origin_s[0])
    for at in range(ranked.counts[SLOPES]):
        most = max(most, (abs(ranked.slopes[at]) + ranked.apart[at] / ROUNDING) * since_s)
    return float(4 * ROUNDING * (most + 1.0))


@borrowing
def _heap_of(ranked: RankedRuns, slope: float) -> int:
    many = ranked.counts[SLOPES]
    for at in range(many):
        apart = abs(ranked.slopes[at] - slope)
        if apart <= ALIKE * abs(slope):
            ranked.apart[at] = max(ranked.apart[at], apart)
            return at
    if many == len(ranked.slopes) or not ranked.counts[IN_USE]:
        return NONE
    ranked.slopes[many], ranked.apart[many], ranked.length[many] = slope, 0.0, 0
    ranked.counts[SLOPES] += 1
    return int(many)


@borrowing
def _is_valid(ranked: RankedRuns, state: IntArray, runs: int, entry: int) -> bool:
    row = entry % JOBS
    return bool(ranked.present[row] == entry and state[row] == runs)


@borrowing
def _remove_void(ranked: RankedRuns, state: IntArray, runs: int, at: int) -> None:
    """Build a heap again from its valid entries."""
    many, ranked.length[at] = ranked.length[at], 0
    for spot in range(many):
        key, entry = ranked.keys[at, spot], ranked.entries[at, spot]
        if _is_valid(ranked, state, runs, entry):
            push_back(ranked, at, key, entry)
