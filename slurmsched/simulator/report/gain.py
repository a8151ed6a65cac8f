"""The gain of a policy over the baseline, with the interval that chance leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..replay import Replay

BLOCKS = 30
"""Stretches of jobs, by submission, that are drawn anew together: jobs of one burst do not vary by themselves."""

DRAWS = 1_000
COVERED = (5.0, 95.0)


@dataclass(frozen=True)
class Gain:
    """Mean JCT under the baseline over that under the policy; 1 is no gain. *low* and *high* bound 90 % of redraws."""

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
    if not len(after_s):
        return Gain(np.nan, np.nan, np.nan)
    blocks = min(BLOCKS, len(after_s))
    block = np.arange(len(after_s)) * blocks // len(after_s)
    sums_s = np.array([np.bincount(block, values, blocks) for values in (before_s, after_s)])
    drawn = sums_s[:, np.random.default_rng(0).integers(0, blocks, (DRAWS, blocks))].sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = np.percentile(drawn[0] / drawn[1], COVERED)
        return Gain(float(before_s.sum() / after_s.sum()), float(low), float(high))
