"""Backtests of the baseline, ``baseline.RuntimeModel``: its forecasts at moments of the past."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.forecast import Forecast
from ...cluster.outlook.remaining import UNKNOWN_S
from .baseline import JUDGED, log_forecast, overruns_of
from .baseline_features import Described, features
from .group_statistics import KINDS, NOTHING, Estimate, GroupStatistics
from .overruns import FAR_FOR_MEDIANS, floored
from .residuals import ResidualQuantiles

_SHARES = (0.1, 0.5, 0.9)


def backtest_forecasts(
    statistics: GroupStatistics, jobs: Described, ended_before: IntArray, every: int = 1, far: float = FAR_FOR_MEDIANS
) -> Forecast:
    """Forecast each of *jobs* as when only the first *ended_before* runs of *statistics* had ended.

    The interval is that of the last moment at which the number of known runs was a multiple of *every*.
    Beyond some 40,000 runs the model drops runs that it no longer needs; here none is dropped, which moves its
    intervals by a few per cent. *far* is the runtime over forecast from which a run is an overrun.
    """
    job_features = features(jobs)
    groups = statistics.groups_of(job_features)
    estimate = statistics.estimate(groups, ended_before)
    limit_s = np.maximum(job_features.time_limit_s, 1.0)
    guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
    base_s = np.where(estimate.kind == NOTHING, guess_s, np.exp(estimate.log_runtime))
    backtest, _ = statistics.backtest(len(statistics.runs))
    factors = _factors(statistics, backtest, estimate.kind, ended_before - ended_before % every)
    low_s, runtime_s, high_s = (np.clip(base_s * factor, 1.0, limit_s) for factor in factors)
    raised = overruns_of(statistics, backtest, far).raised(groups.user, groups.name, np.log(runtime_s), ended_before)
    return floored(Forecast(runtime_s, low_s, high_s, statistics.source(groups, estimate)), raised, limit_s)


def _factors(statistics: GroupStatistics, backtest: Estimate, kinds: IntArray, ended_before: IntArray) -> FloatArray:
    """Return runtime / forecast at each of the shares, from the misses of the last runs known at that moment."""
    misses = statistics.runs.log_runtime - log_forecast(statistics, backtest)
    factors = np.empty((len(_SHARES), len(ended_before)))
    order = np.argsort(ended_before, kind="stable")
    starts = np.flatnonzero(np.diff(ended_before[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else ():
        until = int(ended_before[rows[0]])
        some = slice(max(0, until - JUDGED), until)
        has_backtest = backtest.kind[some] != NOTHING
        spread = ResidualQuantiles.of(backtest.kind[some][has_backtest], misses[some][has_backtest], len(KINDS))
        for at, share in enumerate(_SHARES):
            factors[at, rows] = spread.factor(kinds[rows], share, np.zeros(len(rows)))
    return factors
