"""The trained runtime model: a readable point predictor, the recent history, and an adaptive interval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.outlook.remaining import UNKNOWN_S
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from ...errors import TooLittleHistory
from ..ebm.additive import Columns
from .history_index import HistoryIndex
from .intervals import SHARES, WINDOW, Interval, Misses, rolled
from .model_inputs import Profiles, classes, inputs, rows_of
from .name_buckets import NameBuckets
from .overruns import FAR_FOR_TRAINED, LEAST_S, WINDOW_S, OngoingRuns, Overrunner, Overruns, floored
from .point_predictors import Fit, LogForecast, PointPredictor, Reason, center_of, fit_ga2m
from .survivors import Survivors

KEPT = 60_000  #: latest runs that an active model holds
LEAST = 200  #: fewest runs to train on
WEEKS_S = 28 * 86400.0  #: least span of history for the day of the week as a feature
HINDCAST = 20_000  #: latest runs that are forecast again to find overruns
HELD_OUT = 0.2  #: share of the latest runs that determine the mixture and the first interval

_WITHOUT_HISTORY = "no history: the time limit"


@dataclass(frozen=True, eq=False)
class Estimator:
    """A runtime model around a trained point predictor; implements ``port.Model``.

    Learning extends the history and moves the interval; the point predictor stays as it was trained.
    """

    center: PointPredictor
    buckets: NameBuckets
    before: Misses  #: of runs that the point predictor was not trained on when it forecast them
    fitted_until_s: float  #: *center* and *before* use runs that ended before this moment
    past: HistoryIndex
    trained_until_s: float
    profiles: Callable[[OutcomeTable], Profiles] | None = None  #: measured GPU use of ended runs

    @classmethod
    def fit(
        cls,
        history: OutcomeTable,
        *,
        until_s: float = np.inf,
        profiles: Callable[[OutcomeTable], Profiles] | None = None,
        how: Fit = fit_ga2m,
    ) -> Self:
        """Train on all that ended before *until_s*; *profiles* gives the measured GPU use of runs, row by row.

        TooLittleHistory for fewer than LEAST runs. ConfigError where a dependency of *how* is not installed.
        """
        past = HistoryIndex.of(history, until_s)
        if len(past) < LEAST:
            raise TooLittleHistory(f"{len(past)} runs are too few to train on: at least {LEAST} are needed")
        runs = past.runs
        buckets = NameBuckets.fit(runs.name)
        measured = profiles(runs) if profiles is not None else None
        columns = dict(inputs(runs, past, buckets, past.known_at(runs.first_submit_s), measured))
        if np.ptp(runs.first_submit_s) < WEEKS_S:
            columns["weekday"] = np.full(len(runs), np.nan)
        fitted, unseen = _split(runs)
        center, fitted_forecast = how(columns, past.log_runtime, unseen, fitted)
        before = _misses(runs.take(unseen), rows_of(columns, unseen), fitted_forecast)[1]
        until_s = until_s if np.isfinite(until_s) else float(runs.ended_s[-1])
        return cls(center, buckets, before, until_s, HistoryIndex.of(runs, most=KEPT), until_s, profiles)

    def learn(self, new: OutcomeTable) -> Self:
        """Return a model that also knows *new*."""
        if not len(new):
            return self
        until_s = max(self.trained_until_s, float(new.ended_s.max(initial=-np.inf)))
        return replace(self, past=self.past.plus(new, KEPT), trained_until_s=until_s)

    def forecast(
        self,
        jobs: JobTable,
        now_s: float | None = None,
        running: JobTable | None = None,
        *,
        profiles: Profiles | None = None,
    ) -> Forecast:
        """Forecast each job's runtime from start to end; with *now_s*, given that running jobs lasted until then.

        *running* jobs that are overruns already count in the records of their users.
        """
        columns = inputs(jobs, self.past, self.buckets, profiles=profiles)
        limit_s = np.maximum(np.where(np.isnan(jobs.time_limit_s), np.inf, jobs.time_limit_s), 1.0)
        log_forecast, source = self._log_forecast(columns)
        middle_s, base_s = (_seconds(log, limit_s) for log in log_forecast)
        elapsed_s = _elapsed(jobs, now_s)
        factors = self.interval.factors(classes(columns), middle_s / base_s, elapsed_s / base_s)
        most_s = np.maximum(limit_s, elapsed_s)
        bounds_s = np.clip(base_s * factors, 1.0, most_s)
        past = np.flatnonzero(elapsed_s > middle_s)
        if len(past):
            like = self._like(jobs.take(past))
            left_s = self._survivors.still_s(*like, elapsed_s[past], SHARES)
            bounds_s[:, past] = np.minimum(elapsed_s[past] + left_s, most_s[past])
        low_s, runtime_s, high_s = bounds_s
        said_s = Forecast(runtime_s, low_s, high_s, source)
        ongoing = None if running is None else self._ongoing(running, now_s)
        if not (self.overruns.active or ongoing):
            return said_s
        raised = self.overruns.raised_now(*self._whose(jobs), np.log(runtime_s), ongoing)
        return floored(said_s, raised, most_s)

    def reasons(self, jobs: JobTable, row: int, profiles: Profiles | None = None) -> list[Reason]:
        """Return the terms of the forecast of the job in *row*, in words and the weightiest first.

        The product of the factors is the forecast before the time limit and the elapsed time of the job apply.
        """
        one = profiles.take(np.array([row])) if profiles is not None else None
        job = jobs.take(np.array([row]))
        columns = inputs(job, self.past, self.buckets, profiles=one)
        return self.center.reasons(columns)

    @cached_property
    def interval(self) -> Interval:
        """The interval, from the last runs that were not used for their own forecasts."""
        return rolled(self._judged).interval

    def judged(self, runs: OutcomeTable, columns: Columns) -> tuple[IntArray, Misses]:
        """Compute the misses on *runs*, given their *columns* at submission, and the rows that have a forecast."""
        return _misses(runs, columns, self._log_forecast(columns)[0])

    def backtest(self, runs: OutcomeTable) -> FloatArray:
        """Forecast *runs* by what had ended at their submission: log of low end, middle and "done by"; shape (3, runs).

        The interval is the current one. NaN where nothing was known.
        """
        columns = self._columns_then(runs)
        limit = _log_limit(runs)
        middle, base = np.minimum(self._log_forecast(columns)[0], limit)
        factors = self.interval.factors(classes(columns), np.exp(middle - base), np.zeros(len(runs)))
        log_runtime: FloatArray = np.minimum(base + np.log(factors), limit)
        return log_runtime

    @cached_property
    def overruns(self) -> Overruns:
        """The overrun records of users, from forecasts of recent long runs by this model as of their submission."""
        runs, log = self.past.runs, self.past.log_runtime
        since_s = float(runs.ended_s.max(initial=-np.inf)) - WINDOW_S
        rows = np.flatnonzero((runs.runtime_s >= LEAST_S) & (runs.ended_s >= since_s))[-HINDCAST:]
        long, log_forecasts = runs.take(rows), np.full(len(runs), np.nan)
        if len(rows):
            log_forecasts[rows] = np.minimum(self._log_forecast(self._columns_then(long))[0].middle, _log_limit(long))
        return Overruns(*self._whose(runs), runs.first_submit_s, runs.ended_s, log, log_forecasts, FAR_FOR_TRAINED)

    def overrunners(self) -> tuple[Overrunner, ...]:
        """Return the users whose runs went far beyond their forecasts."""
        return self.overruns.overrunners(self.past.runs.user.names)

    def _ongoing(self, running: JobTable, now_s: float | None) -> OngoingRuns | None:
        """Return the long *running* jobs with what was forecast for them at their submission."""
        elapsed_s = _elapsed(running, now_s)
        rows = np.flatnonzero(elapsed_s >= LEAST_S)
        if not len(rows):
            return None
        jobs = running.take(rows)
        columns = inputs(jobs, self.past, self.buckets, self.past.known_at(jobs.first_submit_s))
        log = np.minimum(self._log_forecast(columns)[0].middle, _log_limit(jobs))
        return OngoingRuns(*self._whose(jobs), jobs.first_submit_s, np.log(elapsed_s[rows]), log)

    def _whose(self, jobs: JobTable | OutcomeTable) -> tuple[IntArray, IntArray]:
        """Return the groups by which `overruns` records runs: user and kind."""
        return self.past.groups(jobs, "user"), self.past.groups(jobs, "kind")

    def _like(self, jobs: JobTable | OutcomeTable) -> tuple[IntArray, IntArray, IntArray]:
        """Return the groups by which `Survivors` weighs runs: user, kind and GPUs."""
        return *self._whose(jobs), self.past.groups(jobs, "gpus")

    @cached_property
    def _survivors(self) -> Survivors:
        """The runs, for jobs past their forecast."""
        return Survivors(*self._like(self.past.runs), np.maximum(self.past.runs.runtime_s, 1.0))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the model's knowledge, in hex."""
        digest = hashlib.sha256(b"estimate 1\n")
        digest.update(json.dumps(self.document(), sort_keys=True, allow_nan=False).encode())
        digest.update(getattr(self.profiles, "digest", "").encode("ascii"))
        for f in fields(OutcomeTable):
            column = getattr(self.past.runs, f.name)
            if isinstance(column, Labels):
                digest.update(json.dumps(column.names).encode("ascii"))
                column = column.codes
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def document(self) -> dict[str, Any]:
        """Return all that was trained, without the history, as JSON values without loss."""
        center, misses = self.center.document(), self.before.document()
        stems = dict(sorted(self.buckets.stems.items()))
        return {"center": center, "stems": stems, "misses": misses, "fitted_until_s": self.fitted_until_s}

    @classmethod
    def of_document(
        cls,
        document: dict[str, Any],
        history: OutcomeTable,
        profiles: Callable[[OutcomeTable], Profiles] | None = None,
    ) -> Self:
        """Rebuild the model from its `document`, with the runs of *history*, whose GPU use *profiles* gives.

        ValueError, KeyError or TypeError where it describes none.
        """
        misses = Misses.of_document(document["misses"])
        until_s = float(document["fitted_until_s"])
        past = HistoryIndex.of(history, most=KEPT)
        latest_s = max(until_s, float(past.runs.ended_s.max(initial=-np.inf)))
        center, buckets = center_of(document["center"]), NameBuckets.of(document["stems"])
        return cls(center, buckets, misses, until_s, past, latest_s, profiles)

    def _log_forecast(self, columns: Columns) -> tuple[LogForecast, Labels]:
        """Forecast each job, and name the source of each forecast."""
        forecast = self.center.log_forecast(columns)
        return forecast, Labels(np.isnan(forecast.middle).astype(np.int64), (self.center.kind, _WITHOUT_HISTORY))

    def _columns_then(self, runs: OutcomeTable) -> Columns:
        """Return the columns of *runs* as they were at their submission."""
        measured = None if self.profiles is None else self.profiles(runs)
        return inputs(runs, self.past, self.buckets, self.past.known_at(runs.first_submit_s), measured)

    @cached_property
    def _judged(self) -> Misses:
        """The misses of training, and those of runs that ended later."""
        runs = self.past.runs
        first = max(int(np.searchsorted(runs.ended_s, self.fitted_until_s)), len(runs) - 2 * WINDOW)
        later = runs.take(slice(first, None))
        if not len(later):
            return self.before
        columns = self._columns_then(later)
        return self.before.joined(self.judged(later, columns)[1]).take(slice(-2 * WINDOW, None))


def _split(runs: OutcomeTable) -> tuple[IntArray, IntArray]:
    """Return the rows to fit on, and later ones that were submitted after all of those had ended."""
    at = int(len(runs) * (1 - HELD_OUT))
    rows = np.arange(len(runs))
    return rows[:at], rows[at:][runs.first_submit_s[at:] >= runs.ended_s[at - 1]]


def _misses(runs: OutcomeTable, columns: Columns, forecast: LogForecast) -> tuple[IntArray, Misses]:
    """Compute the misses of *forecast*, and the rows they are of; runs without a forecast have none."""
    middle, base = np.minimum(forecast, _log_limit(runs))
    miss = in_points(np.log(np.maximum(runs.runtime_s, 1.0))) - base
    forecast_rows = np.flatnonzero(~np.isnan(miss))
    return forecast_rows, Misses(runs.first_submit_s, runs.ended_s, classes(columns), miss, middle - base).take(
        forecast_rows
    )


def _log_limit(runs: OutcomeTable | JobTable) -> FloatArray:
    """Return the natural logarithm of the time limit in seconds; infinite where there is none."""
    return in_points(np.log(np.maximum(np.where(np.isnan(runs.time_limit_s), np.inf, runs.time_limit_s), 1.0)))


def _seconds(log_runtime: FloatArray, limit_s: FloatArray) -> FloatArray:
    """Return the runtime within its limit; where it is unknown, the limit."""
    guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
    with np.errstate(over="ignore"):
        return np.clip(np.where(np.isnan(log_runtime), guess_s, np.exp(log_runtime)), 1.0, limit_s)


def _elapsed(jobs: JobTable, now_s: float | None) -> FloatArray:
    """Return how long running jobs have run, 0 for others."""
    return np.zeros(len(jobs)) if now_s is None else jobs.this_run_s(now_s)
