"""Foresight: what the runtime model would have said of each job of a trace when it was submitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels, table_of
from ..cluster.forecast import Forecast
from ..cluster.history import OutcomeTable
from ..cluster.jobs import JobState
from ..models.evidence import KINDS, NOTHING, Estimate, Evidence
from ..models.features import features
from ..models.runs import Runs
from ..models.runtime import JUDGED, UNKNOWN_S
from ..models.spread import Spread
from .workload import Workload

EVERY_S = 3600.0
_SHARES = (0.1, 0.5, 0.9)


def learnt(jobs: Workload, history: Workload | None = None, every_s: float = EVERY_S) -> Forecast:
    """What ``models.runtime.RuntimeModel`` would have said of each of *jobs* when it was submitted.

    The model learns every *every_s* seconds from the first submission on, and knows what had ended by then of *history*
    and of *jobs*, both on one clock. A run ends its runtime after its submission, as if it had never waited: when the
    replay itself ends a job depends on the policy, and policies are to be compared on the same forecasts.

    Beyond some 40,000 runs the model drops runs that it needs no more to forecast; here none is dropped, which moves
    its intervals by a few per cent. ValueError unless *every_s* is above 0.
    """
    if not every_s > 0:
        raise ValueError(f"learning every {every_s} s: accepted are seconds above 0")
    outcomes = _outcomes(jobs, history)
    evidence = Evidence(Runs.of(outcomes))
    since_s = float(jobs.submit_s.min(initial=np.inf))
    steps = np.floor((jobs.submit_s - since_s) / every_s)
    # Runs are in the order they ended: what was known at a moment is how many of the first ones.
    known = np.searchsorted(evidence.runs.ended_s, since_s + steps * every_s)
    return _forecast(jobs, evidence, known)


def _outcomes(jobs: Workload, history: Workload | None) -> OutcomeTable:
    """Each job as a run that started when it was submitted."""
    parts = [jobs] if history is None else [history, jobs]

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    submit_s, runtime_s = column("submit_s"), column("runtime_s")
    columns = {name: column(name) for name in ("gpus", "time_limit_s")}
    texts = {name: _joined([getattr(part, name) for part in parts]) for name in ("user", "name")}
    return table_of(
        OutcomeTable,
        len(submit_s),
        {"state": JobState.COMPLETED},
        {
            **columns,
            **texts,
            "job_id": np.arange(len(submit_s)),
            "first_submit_s": submit_s,
            "eligible_s": submit_s,
            "started_s": submit_s,
            "ended_s": submit_s + runtime_s,
            "runtime_s": runtime_s,
        },
    )


def _joined(columns: list[Labels]) -> Labels:
    shifts = np.cumsum([0, *(len(column.names) for column in columns)])
    codes = [column.codes + shift for column, shift in zip(columns, shifts.tolist(), strict=False)]
    return Labels(np.concatenate(codes), tuple(name for column in columns for name in column.names))


def _forecast(jobs: Workload, evidence: Evidence, known: IntArray) -> Forecast:
    """The model's forecasts, each from the first *known* runs."""
    seen = features(jobs)
    groups = evidence.groups_of(seen)
    estimate = evidence.estimate(groups, known)
    limit_s = np.maximum(seen.time_limit_s, 1.0)
    guess_s = np.where(np.isinf(limit_s), UNKNOWN_S, limit_s)
    base_s = np.where(estimate.kind == NOTHING, guess_s, np.exp(estimate.log_runtime))
    low_s, runtime_s, high_s = (
        np.clip(base_s * factor, 1.0, limit_s) for factor in _factors(evidence, estimate.kind, known)
    )
    return Forecast(runtime_s, low_s, high_s, evidence.source(groups, estimate))


def _factors(evidence: Evidence, kinds: IntArray, known: IntArray) -> FloatArray:
    """Runtime / forecast at each of the shares, as the misses of the last runs had it when so many were known."""
    misses, missed = _misses(evidence)
    factors = np.empty((len(_SHARES), len(known)))
    order = np.argsort(known, kind="stable")
    starts = np.flatnonzero(np.diff(known[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else ():
        until = int(known[rows[0]])
        some = slice(max(0, until - JUDGED), until)
        told = missed.kind[some] != NOTHING
        spread = Spread.of(missed.kind[some][told], misses[some][told], len(KINDS))
        for at, share in enumerate(_SHARES):
            factors[at, rows] = spread.factor(kinds[rows], share, np.zeros(len(rows)))
    return factors


def _misses(evidence: Evidence) -> tuple[FloatArray, Estimate]:
    """How far off the estimate of each run was when it was submitted, in logarithms."""
    runs = evidence.runs
    estimate, _ = evidence.backtest(len(runs))
    capped = np.minimum(estimate.log_runtime, np.log(np.maximum(runs.time_limit_s, 1.0)))
    return runs.log_runtime - capped, estimate
