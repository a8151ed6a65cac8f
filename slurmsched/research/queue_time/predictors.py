"""Predictors of waits: the protocol, and those that need no queue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from .wait_log import WaitLog

SHARES = (0.1, 0.5, 0.9)
"""The quantiles that predictors state: low end, median and high end."""

LEAST = 10  #: waits of a group that are enough to answer for it


@dataclass(frozen=True)
class Moment:
    """A moment at which waits are asked for: the log as it was then, and the rows that are asked for."""

    now_s: float
    known: WaitLog
    rows: IntArray
    scored: bool  #: False while predictors only learn

    @cached_property
    def waited(self) -> IntArray:
        """The rows of the known waits, the latest start last."""
        rows = np.flatnonzero(np.isfinite(self.known.start_s) & (self.known.asked_s < self.now_s))
        return rows[np.argsort(self.known.start_s[rows], kind="stable")]


class WaitPredictor(Protocol):
    """Predicts waits from what was known when they were asked for."""

    name: str

    def predict(self, moment: Moment) -> FloatArray:
        """Return the quantiles SHARES of the wait of each row in seconds; shape (3, rows), NaN without an answer.

        Called for all moments in their order; nobody uses the answers of moments that are not scored.
        """
        ...


class Constant:
    """The same for all jobs: the quantiles of the known waits."""

    name = "constant"

    def predict(self, moment: Moment) -> FloatArray:
        """Return the quantiles of all known waits; NaN while there are none."""
        waits_s = moment.known.wait_s[moment.waited]
        return np.repeat(_quantiles(waits_s)[:, None], len(moment.rows), axis=1)


class GroupMedian:
    """The quantiles of the known waits of the same account, or partition; of all where these are few."""

    def __init__(self, column: str) -> None:
        self.name, self._column = f"{column} median", column

    def predict(self, moment: Moment) -> FloatArray:
        """Return the quantiles of the group of each row."""
        codes = getattr(moment.known, self._column).codes
        waited, waits_s = moment.waited, moment.known.wait_s
        groups, of = np.unique(codes[moment.rows], return_inverse=True)
        answers = [_quantiles(waits_s[waited[codes[waited] == group]], LEAST) for group in groups.tolist()]
        found = np.array(answers).reshape(len(groups), 3).T[:, of]
        return np.where(np.isnan(found), Constant().predict(moment), found)


class SlurmEstimate:
    """Slurm's own estimate of the start, where the log has it: a point without an interval."""

    name = "Slurm's estimate"

    def predict(self, moment: Moment) -> FloatArray:
        """Return the estimate as the median."""
        wait_s = np.maximum(0.0, moment.known.slurm_start_s[moment.rows] - moment.known.asked_s[moment.rows])
        return np.array([np.full(len(wait_s), np.nan), wait_s, np.full(len(wait_s), np.nan)])


def _quantiles(waits_s: FloatArray, least: int = 1) -> FloatArray:
    return np.quantile(waits_s, SHARES) if len(waits_s) >= least else np.full(len(SHARES), np.nan)
