"""What runs that lasted as long as a job did still needed then: the word of the history on jobs past their forecast.

The residuals of forecasts say little about such a job: they mix all lengths and users. Among the runs that lasted as
long, those of its user, under its name, and on as many GPUs weigh more, and so do the latest ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.outlook.remaining import left_s

MOST = 512  #: latest runs that lasted as long as a job
RECENT = 20_000  #: latest runs among which they are looked for
ENOUGH = 20  #: with fewer, the history has no word
SAME_USER, SAME_NAME, SAME_GPUS = 8, 4, 4  #: how many times as much such a run weighs as another
HALF_AFTER = 5  #: runs after which one weighs half as much

_SCALE = 1 << 20
_STEPS = 16  #: steps of the time run to a doubling, within which jobs look at the same runs


@dataclass(frozen=True, eq=False)
class Survivors:
    """Ended runs, in the order they ended; groups are numbers, -1 for a job of none."""

    user: IntArray
    name: IntArray  #: no two users have one in common
    gpus: IntArray
    runtime_s: FloatArray

    def still_s(
        self, user: IntArray, name: IntArray, gpus: IntArray, ran_s: FloatArray, shares: tuple[float, ...]
    ) -> FloatArray:
        """Return what jobs that ran for *ran_s* still need at most, for each of *shares* of them, shape (shares, jobs).

        Where too few runs lasted as long, it is the rule of ``left_s`` for jobs of which nothing more is known.
        """
        nothing_s = np.full(len(ran_s), -np.inf)
        found_s = np.array([left_s(nothing_s, ran_s, share) for share in shares])
        recent_s = self.runtime_s[-RECENT:]
        first = len(self.runtime_s) - len(recent_s)
        mantissa, exponent = np.frexp(ran_s)
        step = np.floor(mantissa * _STEPS).astype(np.int64) + exponent * _STEPS
        for one in np.unique(step).tolist():
            rows = np.flatnonzero(step == one)
            runs = np.flatnonzero(recent_s > ran_s[rows].min())[-MOST:]
            if len(runs) < ENOUGH:
                continue
            age = np.arange(len(runs))[::-1]
            order = np.argsort(recent_s[runs], kind="stable")
            runs, age = runs[order] + first, age[order]
            like = np.where(user[rows, None] == self.user[runs], SAME_USER, 1)
            like *= np.where(name[rows, None] == self.name[runs], SAME_NAME, 1)
            like *= np.where(gpus[rows, None] == self.gpus[runs], SAME_GPUS, 1)
            lasted = self.runtime_s[runs] > ran_s[rows, None]
            weight = np.cumsum(np.where(lasted, like * _SCALE // (HALF_AFTER + age), 0), axis=1)
            enough = lasted.sum(axis=1) >= ENOUGH
            for place, share in enumerate(shares):
                at = np.minimum((weight < share * weight[:, -1:]).sum(axis=1), len(runs) - 1)
                known_s = self.runtime_s[runs[at]] - ran_s[rows]
                found_s[place, rows[enough]] = known_s[enough]
        return found_s
