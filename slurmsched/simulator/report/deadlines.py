"""Missed deadlines of a replay, and the rewards lost with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..replay import Replay
from ..workload.rewards import steps_of

_NOISE_S = 1e-6  #: sums of times that mean the same moment differ in the last bits


@dataclass(frozen=True)
class Deadlines:
    """The figures over the jobs that have a deadline; NaN where none has."""

    missed: float  #: share of them that ended after it
    unearned: float  #: share of all possible rewards that was not earned; a deadline without rewards is worth 1

    @classmethod
    def of(cls, replay: Replay) -> Self:
        """Compute the figures of *replay*; ValueError where ``rewards`` cannot be read."""
        rows = np.arange(len(replay.workload))[replay.measured]
        rows = rows[np.isfinite(replay.workload.deadline_s[rows])]
        if not len(rows):
            return cls(np.nan, np.nan)
        missed = ~(replay.end_s[rows] <= replay.workload.deadline_s[rows] + _NOISE_S)
        worth, earned = _rewards(replay, rows)
        most = float(worth.sum())
        return cls(float(missed.mean()), 1 - float(earned.sum()) / most if most else np.nan)


def _rewards(replay: Replay, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the reward of the first deadline of each of *rows*, and the reward earned."""
    jobs = replay.workload.take(rows)
    jct_s = replay.end_s[rows] - jobs.submit_s
    worth, earned = np.ones(len(rows)), (replay.end_s[rows] <= jobs.deadline_s + _NOISE_S).astype(np.float64)
    used, line = np.unique(jobs.rewards.codes, return_inverse=True)
    steps = [steps_of(jobs.rewards.names[code]) for code in used.tolist()]
    most = max(map(len, steps))
    if not most:
        return worth, earned
    # Padded with steps that are never in time, so that all jobs are looked up at once.
    within_s, share = np.full((len(used), most), -np.inf), np.zeros((len(used), most))
    for at, worth_step in enumerate(steps):
        for step, (limit_s, value) in enumerate(worth_step):
            within_s[at, step], share[at, step] = limit_s, value
    in_time = jct_s[:, None] <= within_s[line] + _NOISE_S
    first = np.argmax(in_time, axis=1)
    gained = np.where(in_time.any(axis=1), share[line, first], 0.0)
    named = np.array([bool(worth_step) for worth_step in steps], dtype=bool)[line]
    return np.where(named, share[line, 0], worth), np.where(named, gained, earned)
