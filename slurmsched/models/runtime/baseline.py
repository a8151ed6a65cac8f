"""The baseline forecast, which is always available: the median of similar recent runs, with an interval."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from functools import cached_property
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.outlook.remaining import UNKNOWN_S
from ...cluster.records.outcomes import OutcomeTable
from .baseline_features import features
from .group_statistics import KINDS, LAST_OF_ALL, LAST_OF_NAME, LAST_OF_USER, NOTHING, Estimate, GroupStatistics
from .intervals import SHARES
from .overruns import FAR_FOR_MEDIANS, LEAST_S, OngoingRuns, Overrunner, Overruns, floored
from .residuals import ResidualQuantiles
from .survivors import Survivors
from .training_runs import Runs

JUDGED = 20_000  #: latest runs that determine the interval
KEPT = 200_000  #: runs held in memory at most
USUAL = 20  #: runs of a user behind the usual runtime


class RuntimeModel:
    """The median of the user's last runs under a similar name, shrunk towards coarser groups where they are few.

    The interval comes from runtime over forecast of earlier runs, each forecast as at its submission. Runs of a user
    that went far beyond their forecasts raise the floors of that user's jobs (`overruns`). Immutable.
    """

    def __init__(self, runs: Runs, trained_until_s: float) -> None:
        self.trained_until_s = trained_until_s
        self._evidence = GroupStatistics(_bounded(runs))
        estimate, _ = self._evidence.backtest(self.runs)
        self._spread = _spread(self._evidence, estimate)
        self.overruns = overruns_of(self._evidence, estimate)

    @classmethod
    def fit(cls, history: OutcomeTable, *, until_s: float = np.inf) -> Self:
        """Train on all runs that ended before *until_s*."""
        runs = Runs.of(history, until_s)
        return cls(runs, _until(until_s, history))

    def learn(self, new: OutcomeTable) -> Self:
        """Return a model that also knows *new*: the same as one fitted to both, unless KEPT drops runs."""
        runs = self._evidence.runs.plus(Runs.of(new))
        return type(self)(runs, max(self.trained_until_s, _until(np.inf, new)))

    @property
    def runs(self) -> int:
        """The number of runs in the model."""
        return len(self._evidence.runs)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the model's knowledge, in hex."""
        content = hashlib.sha256(b"runtime 1\n")
        for f in fields(Runs):
            column = getattr(self._evidence.runs, f.name)
            if isinstance(column, Labels):
                content.update(json.dumps(column.names).encode("ascii"))
                column = column.codes
            content.update(np.ascontiguousarray(column).tobytes())
        return content.hexdigest()

    def forecast(self, jobs: JobTable, now_s: float | None = None, running: JobTable | None = None) -> Forecast:
        """Forecast each job's runtime from start to end; with *now_s*, given that running jobs lasted until then.

        *running* jobs that are overruns already count in the records of their users.
        """
        columns = features(jobs)
        groups, which = self._evidence.groups_of(columns).distinct()
        estimate = self._evidence.estimate(groups, np.full(len(groups.user), self.runs))
        kind = estimate.kind[which]
        limit_s = np.maximum(columns.time_limit_s, 1.0)
        guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
        base_s = np.where(kind == NOTHING, guess_s, np.exp(estimate.log_runtime[which]))
        elapsed_s = _elapsed(jobs, now_s)
        most_s = np.maximum(limit_s, elapsed_s)
        low_s, runtime_s, high_s = (
            np.clip(base_s * self._spread.factor(kind, share, elapsed_s / base_s), 1.0, most_s) for share in SHARES
        )
        past = np.flatnonzero(elapsed_s > np.maximum(base_s * self._spread.fresh(kind, 0.5), 1.0))
        if len(past):
            rows = which[past]
            like = groups.user[rows], groups.name[rows], groups.gpus[rows]
            left_s = self._survivors.still_s(*like, elapsed_s[past], SHARES)
            for bound_s, more_s in zip((low_s, runtime_s, high_s), left_s, strict=True):
                bound_s[past] = np.minimum(elapsed_s[past] + more_s, most_s[past])
        source = self._evidence.source(groups, estimate)
        ongoing = None if running is None else self._ongoing(running, now_s)
        raised = self.overruns.raised_now(groups.user[which], groups.name[which], np.log(runtime_s), ongoing)
        return floored(Forecast(runtime_s, low_s, high_s, source.take(which)), raised, most_s)

    def _ongoing(self, running: JobTable, now_s: float | None) -> OngoingRuns:
        """Return the *running* jobs with what was forecast for them at their submission."""
        elapsed_s = _elapsed(running, now_s)
        rows = np.flatnonzero(elapsed_s >= LEAST_S)
        jobs = running.take(rows)
        columns = features(jobs)
        groups = self._evidence.groups_of(columns)
        ended_before = self._ended_before(jobs.first_submit_s)
        estimate = self._evidence.estimate(groups, ended_before)
        log = judged_by(self._evidence, estimate, groups.user, ended_before, columns.time_limit_s)
        return OngoingRuns(groups.user, groups.name, jobs.first_submit_s, np.log(elapsed_s[rows]), log)

    def _ended_before(self, moments_s: FloatArray) -> IntArray:
        """Return the number of runs that had ended by each of *moments_s*."""
        return np.searchsorted(self._evidence.runs.ended_s, moments_s, side="right").astype(np.int64)

    @cached_property
    def _survivors(self) -> Survivors:
        """The runs, for jobs past their forecast."""
        groups, log_runtime = self._evidence.groups, self._evidence.runs.log_runtime
        return Survivors(groups.user, groups.name, groups.gpus, np.exp(log_runtime))

    def overrunners(self) -> tuple[Overrunner, ...]:
        """Return the users whose runs went far beyond their forecasts."""
        return self.overruns.overrunners(self._evidence.runs.user.names)

    def backtest(self, runs: OutcomeTable) -> FloatArray:
        """Forecast *runs* by what had ended at their submission: log of low end, middle and "done by"; shape (3, runs).

        The interval is the current one.
        """
        evidence = self._evidence
        columns = features(runs)
        estimate = evidence.estimate(evidence.groups_of(columns), self._ended_before(runs.first_submit_s))
        limit_s = np.maximum(columns.time_limit_s, 1.0)
        guess = np.log(np.where(np.isinf(limit_s), UNKNOWN_S, limit_s))
        log = np.where(estimate.kind == NOTHING, guess, estimate.log_runtime)
        fresh = np.zeros(len(log))
        factors = np.array([self._spread.factor(estimate.kind, share, fresh) for share in SHARES])
        bounds: FloatArray = np.minimum(log + np.log(factors), np.log(limit_s))
        return bounds


def _bounded(runs: Runs) -> Runs:
    """Select the runs that any forecast or the interval depends on."""
    everything = GroupStatistics(runs).groups
    groups = (
        (everything.name, LAST_OF_NAME),
        (everything.user, LAST_OF_USER),
        (everything.gpus, LAST_OF_ALL),
    )
    # Twice: forecasts of the judged runs depend on the runs before them.
    return runs.latest(2 * JUDGED, KEPT, *groups)


def log_forecast(evidence: GroupStatistics, estimate: Estimate) -> FloatArray:
    """Limit the *estimate* of each run to its time limit, natural logarithm of seconds; NaN where nothing was known."""
    return _within(estimate, evidence.runs.time_limit_s)


def overruns_of(evidence: GroupStatistics, estimate: Estimate, far: float = FAR_FOR_MEDIANS) -> Overruns:
    """Compute the overrun records of users from the *estimate* of each run at its submission."""
    runs, groups = evidence.runs, evidence.groups
    ended_before = np.searchsorted(runs.ended_s, runs.submitted_s, side="right").astype(np.int64)
    log = judged_by(evidence, estimate, groups.user, ended_before, runs.time_limit_s)
    return Overruns(groups.user, groups.name, runs.submitted_s, runs.ended_s, runs.log_runtime, log, far)


def judged_by(
    evidence: GroupStatistics, estimate: Estimate, user: IntArray, ended_before: IntArray, limit_s: FloatArray
) -> FloatArray:
    """Return the log runtime against which a run is an overrun; NaN where nothing was known.

    The last runs are few: where the user's usual runtime exceeds their median, the run is compared with that instead.
    """
    log = _within(estimate, limit_s)
    return np.where(np.isnan(log), log, np.fmax(log, evidence.usual(user, ended_before, USUAL)))


def _within(estimate: Estimate, limit_s: FloatArray) -> FloatArray:
    return np.where(
        estimate.kind == NOTHING, np.nan, np.minimum(estimate.log_runtime, np.log(np.maximum(limit_s, 1.0)))
    )


def _spread(evidence: GroupStatistics, estimate: Estimate) -> ResidualQuantiles:
    misses = (evidence.runs.log_runtime - log_forecast(evidence, estimate))[-JUDGED:]
    has_forecast = ~np.isnan(misses)
    return ResidualQuantiles.of(estimate.kind[-JUDGED:][has_forecast], misses[has_forecast], len(KINDS))


def _elapsed(jobs: JobTable, now_s: float | None) -> FloatArray:
    """Return how long running jobs have run, 0 for others."""
    return np.zeros(len(jobs)) if now_s is None else jobs.this_run_s(now_s)


def _until(until_s: float, history: OutcomeTable) -> float:
    return until_s if np.isfinite(until_s) else float(history.ended_s.max(initial=-np.inf))
