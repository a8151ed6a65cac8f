"""The gain of a policy over the baseline, with the interval that chance leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ..replay import Replay

BLOCKS = 30
"""Stretches of jobs, by submission, that are drawn anew together: jobs of one burst do not vary by themselves."""

DRAWS = 1_000
COVERED = (5.0, 95.0)


@dataclass(frozen=True)
class Gain:
    """Mean JCT under the baseline over that under the policy; 1 is no gain. *low* and *high* bound 90 % of redraws.

    A redraw has stretches of jobs, of one of the futures.
    """

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f}x ({self.low:.2f} to {self.high:.2f})"

    @property
    def sure(self) -> bool:
        """True if chance alone does not explain it."""
        return self.low > 1.0 or self.high < 1.0


def gain(replay: Replay, baseline: Replay) -> Gain:
    """Compare the mean JCTs of two replays of the same jobs; NaN where there are none."""
    submit_s = replay.workload.submit_s
    before_s, after_s = ((one.end_s - submit_s)[one.measured] for one in (baseline, replay))
    return gain_of(before_s[np.newaxis], after_s[np.newaxis])


def gain_of(before_s: FloatArray, after_s: FloatArray) -> Gain:
    """Compare the JCTs of the same jobs, by submission, in several futures; shape (futures, jobs)."""
    futures, jobs = after_s.shape
    if not jobs:
        return Gain(np.nan, np.nan, np.nan)
    blocks = min(BLOCKS, jobs)
    first = -(-np.arange(blocks) * jobs // blocks)
    sums_s = np.add.reduceat(np.array([before_s, after_s]), first, axis=2)
    random = np.random.default_rng(0)
    block = random.integers(0, blocks, (DRAWS, blocks))
    future = random.integers(0, futures, (DRAWS, 1))
    drawn = sums_s[:, future, block].sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = np.percentile(drawn[0] / drawn[1], COVERED)
        return Gain(float(before_s.sum() / after_s.sum()), float(low), float(high))
