"""The forecast that is always there: the median of what such runs took lately, with an interval."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from functools import cached_property
from typing import Self

import numpy as np

from ..cluster.columns import FloatArray, Labels
from ..cluster.forecast import Forecast
from ..cluster.history import OutcomeTable
from ..cluster.jobs import JobState, JobTable
from .evidence import KINDS, LAST_OF_ALL, LAST_OF_NAME, LAST_OF_USER, NOTHING, Evidence
from .features import features
from .runs import Runs
from .spread import Spread

JUDGED = 20_000  #: latest runs that the interval is learnt from
KEPT = 200_000  #: runs kept in memory at most
UNKNOWN_S = 3600.0  #: forecast for a job without a time limit while there is no history at all

_RUNNING = (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)


class RuntimeModel:
    """What the user's last runs under such a name took, drawn towards coarser groups where they are few.

    The interval holds what was between forecast and runtime of earlier runs, judged as it would have been at their
    submission. Immutable.
    """

    def __init__(self, runs: Runs, trained_until_s: float) -> None:
        self.trained_until_s = trained_until_s
        self._evidence = Evidence(_bounded(runs))
        self._spread = _spread(self._evidence)

    @classmethod
    def fit(cls, history: OutcomeTable, *, until_s: float = np.inf) -> Self:
        """The model of all that ended before *until_s*."""
        runs = Runs.of(history, until_s)
        return cls(runs, _until(until_s, history))

    def learn(self, new: OutcomeTable) -> Self:
        """The model that also knows *new*: the same as one fitted to both, while KEPT runs hold all that counts."""
        runs = self._evidence.runs.plus(Runs.of(new))
        return type(self)(runs, max(self.trained_until_s, _until(np.inf, new)))

    @property
    def runs(self) -> int:
        """How many runs it holds."""
        return len(self._evidence.runs)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what it knows, in hex."""
        known = hashlib.sha256(b"runtime 1\n")
        for f in fields(Runs):
            column = getattr(self._evidence.runs, f.name)
            if isinstance(column, Labels):
                known.update(json.dumps(column.names).encode("ascii"))
                column = column.codes
            known.update(np.ascontiguousarray(column).tobytes())
        return known.hexdigest()

    def forecast(self, jobs: JobTable, now_s: float | None = None) -> Forecast:
        """Runtime from start to end of each job; with *now_s*, given that running ones have lasted until then."""
        seen = features(jobs)
        groups, which = self._evidence.groups_of(seen).distinct()
        estimate = self._evidence.estimate(groups, np.full(len(groups.user), self.runs))
        kind = estimate.kind[which]
        limit_s = np.maximum(seen.time_limit_s, 1.0)
        guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
        base_s = np.where(kind == NOTHING, guess_s, np.exp(estimate.log_runtime[which]))
        elapsed_s = _elapsed(jobs, now_s)
        most_s = np.maximum(limit_s, elapsed_s)
        low_s, runtime_s, high_s = (
            np.clip(base_s * self._spread.factor(kind, share, elapsed_s / base_s), 1.0, most_s)
            for share in (0.1, 0.5, 0.9)
        )
        source = self._evidence.source(groups, estimate)
        return Forecast(runtime_s, low_s, high_s, source.take(which))

    def told(self, runs: OutcomeTable) -> FloatArray:
        """Log of low end, middle and "done by" of each of *runs*, by what had ended at its submission; shape (3, runs).

        The interval is the one of now.
        """
        evidence = self._evidence
        seen = features(runs)
        known = np.searchsorted(evidence.runs.ended_s, runs.first_submit_s, side="right")
        estimate = evidence.estimate(evidence.groups_of(seen), known)
        limit_s = np.maximum(seen.time_limit_s, 1.0)
        guess = np.log(np.where(np.isinf(limit_s), UNKNOWN_S, limit_s))
        log = np.where(estimate.kind == NOTHING, guess, estimate.log_runtime)
        fresh = np.zeros(len(log))
        factors = np.array([self._spread.factor(estimate.kind, share, fresh) for share in (0.1, 0.5, 0.9)])
        bounds: FloatArray = np.minimum(log + np.log(factors), np.log(limit_s))
        return bounds


def _bounded(runs: Runs) -> Runs:
    """The runs that any forecast or the interval rests on."""
    everything = Evidence(runs).groups
    groups = (
        (everything.name, LAST_OF_NAME),
        (everything.user, LAST_OF_USER),
        (everything.gpus, LAST_OF_ALL),
    )
    # Twice: runs before the judged ones are what was known then.
    return runs.latest(2 * JUDGED, KEPT, *groups)


def _spread(evidence: Evidence) -> Spread:
    estimate, rows = evidence.backtest(JUDGED)
    runs = evidence.runs
    capped = np.minimum(estimate.log_runtime, np.log(np.maximum(runs.time_limit_s[rows], 1.0)))
    told = estimate.kind != NOTHING
    return Spread.of(estimate.kind[told], (runs.log_runtime[rows] - capped)[told], len(KINDS))


def _elapsed(jobs: JobTable, now_s: float | None) -> FloatArray:
    """Seconds since the start of running jobs, 0 for all others; time suspended counts, Slurm does not tell it."""
    if now_s is None:
        return np.zeros(len(jobs))
    running = np.isin(jobs.state, _RUNNING) & np.isfinite(jobs.started_s)
    return np.maximum(0.0, np.where(running, now_s - jobs.started_s, 0.0))


def _until(until_s: float, history: OutcomeTable) -> float:
    return until_s if np.isfinite(until_s) else float(history.ended_s.max(initial=-np.inf))
