"""Hindsight: what the baseline, ``baseline.RuntimeModel``, would have said of jobs at moments of the past."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.forecast import Forecast
from .baseline import JUDGED, UNKNOWN_S, log_forecast, overruns_of
from .baseline_features import Described, features
from .group_statistics import KINDS, NOTHING, Estimate, Evidence
from .overruns import IN_MEDIANS, Trust, floored
from .residuals import Spread

_SHARES = (0.1, 0.5, 0.9)


def said_then(
    evidence: Evidence, jobs: Described, known: IntArray, every: int = 1, trust: Trust = IN_MEDIANS
) -> Forecast:
    """What was forecast of each of *jobs* when the first *known* runs of *evidence* were all there was.

    The interval is that of the last moment at which the number of runs known was a multiple of *every*.
    Beyond some 40,000 runs the model drops runs that it needs no more to forecast; here none is dropped, which moves
    its intervals by a few per cent. *trust* is that in users' records of overruns.
    """
    seen = features(jobs)
    groups = evidence.groups_of(seen)
    estimate = evidence.estimate(groups, known)
    limit_s = np.maximum(seen.time_limit_s, 1.0)
    guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
    base_s = np.where(estimate.kind == NOTHING, guess_s, np.exp(estimate.log_runtime))
    backtest, _ = evidence.backtest(len(evidence.runs))
    factors = _factors(evidence, backtest, estimate.kind, known - known % every)
    low_s, runtime_s, high_s = (np.clip(base_s * factor, 1.0, limit_s) for factor in factors)
    raised = overruns_of(evidence, backtest, trust).raised(groups.user, groups.name, np.log(runtime_s), known)
    return floored(Forecast(runtime_s, low_s, high_s, evidence.source(groups, estimate)), raised, limit_s)


def _factors(evidence: Evidence, backtest: Estimate, kinds: IntArray, known: IntArray) -> FloatArray:
    """Runtime / forecast at each of the shares, as the misses of the last runs had it when so many were known."""
    misses = evidence.runs.log_runtime - log_forecast(evidence, backtest)
    factors = np.empty((len(_SHARES), len(known)))
    order = np.argsort(known, kind="stable")
    starts = np.flatnonzero(np.diff(known[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else ():
        until = int(known[rows[0]])
        some = slice(max(0, until - JUDGED), until)
        told = backtest.kind[some] != NOTHING
        spread = Spread.of(backtest.kind[some][told], misses[some][told], len(KINDS))
        for at, share in enumerate(_SHARES):
            factors[at, rows] = spread.factor(kinds[rows], share, np.zeros(len(rows)))
    return factors
