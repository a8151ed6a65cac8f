"""The choice of a runtime model: candidates are backtested on the last part of the history, and the best is chosen.

Every forecast uses runs that had ended when the job was submitted, and every model those that had ended when it was
fitted; so no model knows the runs it is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from ...errors import TooLittleHistory
from .baseline_backtest import backtest_forecasts
from .estimator import LEAST, Estimator
from .group_statistics import GroupStatistics
from .history_index import HistoryIndex
from .intervals import SHARES, STEP, Misses, rolled
from .model_inputs import Profiles, inputs
from .paired_test import PairedTest
from .point_predictors import LAST_OF_NAME, LAST_OF_USER, LIMIT, Fit, fit_ga2m, fit_trees, repeating
from .training_runs import Runs

Profiler = Callable[[OutcomeTable], Profiles]
"""Returns the measured GPU use of runs, row by row."""

SERVING = "serving"  #: the name of the active model among the scores
BASELINE = "baseline"  #: the name of ``baseline.RuntimeModel``, which a new model must beat, among the scores
WINDOW = 0.2  #: share of the history, by end, on which candidates are judged
SIMPLE: Mapping[str, Fit] = {
    LAST_OF_NAME.kind: repeating(LAST_OF_NAME),
    LAST_OF_USER.kind: repeating(LAST_OF_USER),
    LIMIT.kind: repeating(LIMIT),
}
READABLE: Mapping[str, Fit] = {**SIMPLE, "additive": fit_ga2m}
CANDIDATES: Mapping[str, Fit] = {**READABLE, "trees": fit_trees}  #: the most readable first


@dataclass(frozen=True, eq=False)
class BacktestForecasts:
    """Forecasts of runs as at their submission, in the order they ended; logarithms of seconds."""

    runs: OutcomeTable
    misses: Misses  #: of the same rows
    bounds: FloatArray  #: at each of intervals.SHARES, shape (3, runs)

    @property
    def log_runtime(self) -> FloatArray:
        """The actual runtimes."""
        return in_points(np.log(np.maximum(self.runs.runtime_s, 1.0)))

    def since(self, submitted_s: float) -> BacktestForecasts:
        """Select the runs submitted from then on."""
        rows = np.flatnonzero(self.runs.first_submit_s >= submitted_s)
        return BacktestForecasts(self.runs.take(rows), self.misses.take(rows), self.bounds[:, rows])


@dataclass(frozen=True)
class Scores:
    """The accuracy of forecasts; errors are of the natural logarithm of the runtime."""

    runs: int
    r2: float  #: share of the variance that is explained
    median_error: float  #: median absolute error
    mean_error: float  #: mean absolute error
    pinball: float  #: mean pinball loss of the middle and the 90 % bound
    coverage: float  #: share of runs that were done by the 90 % bound


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """The chosen model, and the scores of each candidate."""

    chosen: str
    model: Estimator
    scores: Mapping[str, Scores]
    why: str  #: the comparison of trained models with simple rules, in words

    @property
    def beats_baseline(self) -> bool:
        """True if the model did better than the baseline."""
        return self.scores[self.chosen].pinball < self.scores[BASELINE].pinball

    @property
    def promoted(self) -> bool:
        """True if there is a new model that should become active."""
        return self.chosen != SERVING and self.beats_baseline


def judge(
    history: OutcomeTable,
    *,
    serving: Estimator | None = None,
    until_s: float = np.inf,
    interpretable_only: bool = True,
    profiles: Profiler | None = None,
    rising: Sequence[str] = (),
    report: Callable[[str], None] = lambda doing: None,
) -> ModelChoice:
    """Choose a candidate with `elected` on the last WINDOW of what ended before *until_s*, and fit it to all of it.

    The active model, *serving*, stays where the candidate's pinball loss is no lower on those runs of the window that
    are new to both, if these are LEAST and more. Forecasts of candidates never fall with the columns *rising*.
    *report* receives the progress.
    TooLittleHistory for fewer than 2 * LEAST runs.
    """
    past = HistoryIndex.of(history, until_s)
    if len(past) < 2 * LEAST:
        raise TooLittleHistory(f"{len(past)} runs are too few to judge by: at least {2 * LEAST} are needed")
    since_s = float(past.runs.ended_s[int(len(past) * (1 - WINDOW))])
    candidates = dict(READABLE if interpretable_only else CANDIDATES)
    if rising:
        risen: dict[str, Fit] = {
            "additive": partial(fit_ga2m, rising=rising),
            "trees": partial(fit_trees, rising=rising),
        }
        candidates |= {name: how for name, how in risen.items() if name in candidates}
    forecasts_by_name = {}
    for number, (name, how) in enumerate(candidates.items(), 1):
        report(f"judging candidate {number} of {len(candidates)}, {name}")
        forecasts_by_name[name] = backtest_models(past.runs, how, (since_s,), profiles=profiles)
    scores = {name: score(one) for name, one in forecasts_by_name.items()}
    chosen, why = elected(forecasts_by_name)
    scores[BASELINE] = score(_judged_baseline(past.runs, since_s))
    if serving is not None:
        unseen_s = max(since_s, serving.fitted_until_s)
        serving_forecasts = _rolled(past.runs, serving.before, [_judged(serving, past, unseen_s, np.inf, profiles)])
        new = forecasts_by_name[chosen].since(unseen_s)
        scores[SERVING] = score(serving_forecasts)
        if len(new.runs) >= LEAST and scores[SERVING].pinball <= score(new).pinball:
            return ModelChoice(SERVING, serving.learn(past.runs), scores, why)
    report(f"fitting {chosen} to {len(past)} runs")
    return ModelChoice(chosen, Estimator.fit(past.runs, profiles=profiles, how=candidates[chosen]), scores, why)


def elected(candidates: Mapping[str, BacktestForecasts]) -> tuple[str, str]:
    """Choose among CANDIDATES by forecasts of the same runs; return the name and the reason in words.

    The choice is the simple rule with the lowest pinball loss, unless a trained model's is significantly lower; of two
    such models the readable one, unless the other is significantly better.
    """
    loss = {name: losses(one.log_runtime, one.bounds[1:], SHARES[1:]) for name, one in candidates.items()}
    chosen = min((name for name in SIMPLE if name in candidates), key=lambda name: loss[name].mean())
    why = []
    for name in CANDIDATES:
        if name in candidates and name not in SIMPLE:
            lead = PairedTest.of(loss[chosen] - loss[name], candidates[name].runs.user.codes)
            why.append(_compared(name, lead, chosen))
            chosen = name if lead.sure else chosen
    return chosen, "; ".join(why)


def _compared(name: str, lead: PairedTest, other: str) -> str:
    where = "ahead of" if lead.mean > 0 else "behind"
    chance = " that may be chance" if lead.mean > 0 and not lead.sure else ""
    doubt = f"standard error {lead.error:.3f} over {lead.groups} groups of runs"
    return f"{name} is {where} {other} by {abs(lead.mean):.3f}{chance} ({doubt})"


def backtest_models(
    history: OutcomeTable,
    how: Fit,
    fitted_s: Sequence[float],
    until_s: float = np.inf,
    profiles: Profiler | None = None,
) -> BacktestForecasts:
    """Forecast runs by models fitted at each of the rising moments *fitted_s*, each until the next moment.

    The interval starts from the held-out runs of the first fit and rolls on.
    """
    past = HistoryIndex.of(history)
    parts: list[tuple[IntArray, Misses]] = []
    before: Misses | None = None
    for since_s, to_s in zip(fitted_s, (*fitted_s[1:], until_s), strict=True):
        model = Estimator.fit(past.runs, until_s=since_s, profiles=profiles, how=how)
        before = model.before if before is None else before
        parts.append(_judged(model, past, since_s, to_s, profiles))
    assert before is not None
    return _rolled(past.runs, before, parts)


def score(forecasts: BacktestForecasts) -> Scores:
    """Compute the scores of *forecasts*; NaN where there is no run."""
    truth = forecasts.log_runtime
    if not len(truth):
        return Scores(0, *[np.nan] * 5)
    off = truth - forecasts.bounds[1]
    return Scores(
        len(truth),
        float(1 - np.mean(off**2) / truth.var()) if truth.var() else np.nan,
        float(np.median(np.abs(off))),
        float(np.abs(off).mean()),
        pinball(truth, forecasts.bounds[1:], SHARES[1:]),
        float((truth <= forecasts.bounds[2]).mean()),
    )


def pinball(truth: FloatArray, bounds: FloatArray, shares: Sequence[float]) -> float:
    """Return the mean pinball loss of *bounds*, one row for each of *shares*."""
    return float(losses(truth, bounds, shares).mean())


def losses(truth: FloatArray, bounds: FloatArray, shares: Sequence[float]) -> FloatArray:
    """Return the pinball loss of each run, averaged over *shares*."""
    off = truth - bounds
    levels = np.array(shares)[:, None]
    loss: FloatArray = np.maximum(levels * off, (levels - 1) * off).mean(axis=0)
    return loss


def _judged(
    model: Estimator, past: HistoryIndex, since_s: float, until_s: float, profiles: Profiler | None
) -> tuple[IntArray, Misses]:
    """Compute the misses of *model* on the runs submitted from *since_s* to *until_s*, and their rows."""
    submit_s = past.runs.first_submit_s
    rows = np.flatnonzero((submit_s >= since_s) & (submit_s < until_s))
    runs = past.runs.take(rows)
    measured = profiles(runs) if profiles is not None else None
    columns = inputs(runs, past, model.buckets, past.known_at(runs.first_submit_s), measured)
    log_runtime, misses = model.judged(runs, columns)
    return rows[log_runtime], misses


def _judged_baseline(runs: OutcomeTable, since_s: float) -> BacktestForecasts:
    """Backtest the baseline on the *runs* submitted from *since_s* on."""
    chosen = runs.take(np.flatnonzero(runs.first_submit_s >= since_s))
    statistics = GroupStatistics(Runs.of(runs))
    ended_before = np.searchsorted(statistics.runs.ended_s, chosen.first_submit_s, side="right")
    log_forecasts = backtest_forecasts(statistics, chosen, ended_before, STEP)
    bounds = in_points(np.log([log_forecasts.low_s, log_forecasts.runtime_s, log_forecasts.high_s]))
    miss = in_points(np.log(np.maximum(chosen.runtime_s, 1.0))) - bounds[1]
    kind, middle = np.zeros(len(chosen), np.int64), np.zeros(len(chosen))
    return BacktestForecasts(chosen, Misses(chosen.first_submit_s, chosen.ended_s, kind, miss, middle), bounds)


def _rolled(runs: OutcomeTable, before: Misses, parts: Sequence[tuple[IntArray, Misses]]) -> BacktestForecasts:
    rows = np.concatenate([rows for rows, _ in parts])
    misses = parts[0][1]
    for _, more in parts[1:]:
        misses = misses.joined(more)
    order = np.argsort(rows)
    rows, misses = rows[order], misses.take(order)
    chosen = runs.take(rows)
    limit = in_points(np.log(np.maximum(chosen.time_limit_s, 1.0)))
    log_factors = rolled(before.joined(misses)).log_factors[:, len(before) :]
    log_runtime = in_points(np.log(np.maximum(chosen.runtime_s, 1.0)))
    bounds = np.minimum(log_runtime - misses.miss + log_factors, limit)
    return BacktestForecasts(chosen, misses, bounds)
