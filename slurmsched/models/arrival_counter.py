"""Counts of submissions for the forecast of arrivals, updated each cycle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import View
from .arrivals import DAY, REACH, SERIES, STEP_S, Arrivals
from .throughput import USUAL, LoadOutlook, ThroughputModel, by_median

KEPT = USUAL + REACH  #: steps
KEPT_S = KEPT * STEP_S


class ArrivalCounter:
    """Submissions per step of the last weeks: those of a history, then each cycle's new jobs.

    ``model`` forecasts the next ones; by default the rolling median.
    """

    def __init__(self, model: ThroughputModel | None = None) -> None:
        self.model = by_median() if model is None else model
        self._counts: dict[int, tuple[float, float]] = {}  # jobs and GPUs
        self._until_s = -math.inf
        self._outlooks: tuple[float, Mapping[str, LoadOutlook]] = (-math.inf, {})

    def learn(self, submitted_s: FloatArray, gpus: IntArray) -> None:
        """Start again from jobs submitted earlier; pending and running jobs come with the next cycle."""
        self._counts, self._until_s = {}, -math.inf
        self._outlooks = (-math.inf, {})
        self._add(submitted_s, np.ones(len(submitted_s)), gpus)

    def observe(self, view: View, ended: OutcomeTable) -> None:
        """Count the jobs submitted since the last cycle, including those that have already *ended*."""
        now_s = view.now_s
        self._until_s = min(self._until_s, now_s)  # clocks may be set back
        for jobs in (view.pending, view.running):
            new = self._new(jobs.first_submit_s, now_s)
            self._add(jobs.first_submit_s[new], jobs.tasks[new].astype(np.float64), (jobs.gpus * jobs.tasks)[new])
        new = self._new(ended.first_submit_s, now_s) & (ended.restart == 0)
        self._add(ended.first_submit_s[new], np.ones(int(new.sum())), ended.gpus[new])
        self._until_s = now_s
        for step in [step for step in self._counts if step < now_s // STEP_S - KEPT]:
            del self._counts[step]

    def outlooks(self, now_s: float) -> Mapping[str, LoadOutlook]:
        """Return each series now and in the next hour; none before one day of data. Computed once per step."""
        made_s, outlooks = self._outlooks
        if now_s // STEP_S != made_s // STEP_S:
            history = self._arrivals(now_s)
            outlooks = {name: self.model.outlook(history, name) for name in SERIES} if len(history) >= DAY else {}
            self._outlooks = now_s, outlooks
        return outlooks

    def _arrivals(self, now_s: float) -> Arrivals:
        """Return the complete steps before *now_s*."""
        last = int(now_s // STEP_S)
        steps = range(max(min(self._counts, default=last), last - KEPT), last)
        rows = [self._counts.get(step, (0.0, 0.0)) for step in steps]
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), 2)
        return Arrivals(np.array(steps, dtype=np.float64) * STEP_S, columns[:, 0].copy(), columns[:, 1].copy())

    def _new(self, submitted_s: FloatArray, now_s: float) -> BoolArray:
        return np.asarray((submitted_s > self._until_s) & (submitted_s <= now_s), dtype=np.bool_)

    def _add(self, submitted_s: FloatArray, jobs: FloatArray, gpus: IntArray) -> None:
        for step, many, gpus_asked in _per_step(submitted_s, jobs, gpus):
            before = self._counts.get(step, (0.0, 0.0))
            self._counts[step] = before[0] + many, before[1] + gpus_asked


def _per_step(submitted_s: FloatArray, jobs: FloatArray, gpus: IntArray) -> Iterable[tuple[int, float, float]]:
    steps, which = np.unique((submitted_s // STEP_S).astype(np.int64), return_inverse=True)
    sums = (np.bincount(which, weights=weights, minlength=len(steps)).tolist() for weights in (jobs, gpus))
    return zip(steps.tolist(), *sums, strict=True)
