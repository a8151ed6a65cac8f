"""Forecasts for trace jobs: each as by a model trained only on runs that had ended by its submission."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cluster.columns import FloatArray, Labels, table_of
from ..cluster.forecast import Forecast
from ..cluster.gpu_usage import Use
from ..cluster.job_kind import kind_of
from ..cluster.jobs import JobState
from ..cluster.records.outcomes import OutcomeTable
from ..models.runtime.baseline_backtest import backtest_forecasts
from ..models.runtime.estimator import LEAST
from ..models.runtime.group_statistics import GroupStatistics
from ..models.runtime.model_selection import BacktestForecasts, backtest_models
from ..models.runtime.overruns import FAR_FOR_MEDIANS, FAR_FOR_TRAINED, Overruns, floored
from ..models.runtime.point_predictors import Fit, fit_ga2m
from ..models.runtime.training_runs import Runs
from .workload.workload import Workload

EVERY_S = 3600.0
DAY_S = 86400.0


def learnt(
    jobs: Workload, history: Workload | None = None, every_s: float = EVERY_S, far: float = FAR_FOR_MEDIANS
) -> Forecast:
    """Forecast each of *jobs* at its submission as ``models.runtime.baseline.RuntimeModel`` would have.

    The model learns every *every_s* seconds from the first submission on, from what had ended by then of *history*
    and of *jobs*, both on one clock. A run ends its runtime after its submission, as if it had never waited: the true
    end depends on the policy, and policies are to be compared on the same forecasts.

    *far* is the runtime over forecast from which a run is an overrun. Intervals are a few per cent off beyond some
    40,000 runs (``baseline_backtest``). ValueError unless *every_s* is above 0.
    """
    if not every_s > 0:
        raise ValueError(f"learning every {every_s} s: accepted are seconds above 0")
    outcomes = as_outcomes(jobs, history)
    statistics = GroupStatistics(Runs.of(outcomes))
    since_s = float(jobs.submit_s.min(initial=np.inf))
    steps = np.floor((jobs.submit_s - since_s) / every_s)
    # Runs are in the order they ended, so the number of known ones describes what was known at a moment.
    ended_before = np.searchsorted(statistics.runs.ended_s, since_s + steps * every_s)
    return backtest_forecasts(statistics, jobs, ended_before, far=far)


def trained(
    jobs: Workload,
    history: Workload | None = None,
    every_s: float = DAY_S,
    how: Fit = fit_ga2m,
    far: float = FAR_FOR_TRAINED,
) -> Forecast:
    """Forecast each of *jobs* as ``estimator.Estimator`` would have, trained anew every *every_s* seconds.

    As with ``learnt``, runs are taken to start when they were submitted, and none counts before it has ended. Jobs
    submitted before there are enough runs to train on, and those unknown to the model, get the forecast of ``learnt``.
    *far* is the runtime over forecast from which a run is an overrun. ConfigError where a dependency of *how* is not
    installed; ValueError unless *every_s* is above 0.
    """
    before = learnt(jobs, history)
    outcomes = as_outcomes(jobs, history)
    moments_s = _moments(jobs.submit_s, np.sort(outcomes.ended_s), every_s)
    if not moments_s:
        return before
    forecasts = backtest_models(outcomes, how, moments_s)
    rows = forecasts.runs.job_id - (len(outcomes) - len(jobs))
    forecast_rows = np.flatnonzero(rows >= 0)
    bounds_s = np.array([before.low_s, before.runtime_s, before.high_s])
    limit_s = np.maximum(jobs.time_limit_s, 1.0)
    bounds_s[:, rows[forecast_rows]] = np.clip(
        np.exp(forecasts.bounds[:, forecast_rows]), 1.0, limit_s[rows[forecast_rows]]
    )
    source = before.source.codes.copy()
    source[rows[forecast_rows]] = len(before.source.names)
    low_s, runtime_s, high_s = bounds_s
    floor_s, log_rank = before.floor_s.copy(), np.log(runtime_s)
    floor_s[rows[forecast_rows]], log_rank[rows[forecast_rows]] = 0.0, _ranked(forecasts, far)[forecast_rows]
    forecast = Forecast(runtime_s, low_s, high_s, Labels(source, (*before.source.names, "trained model")), floor_s)
    return floored(forecast, log_rank, limit_s)


def _ranked(forecasts: BacktestForecasts, far: float) -> FloatArray:
    """Return the natural logarithm of *forecasts* in seconds, raised by records of overruns."""
    runs, log_forecast = forecasts.runs, forecasts.bounds[1]
    overruns = Overruns.of(runs, forecasts.log_runtime, log_forecast, far)
    ended_before = np.searchsorted(runs.ended_s, runs.first_submit_s, side="right")
    return overruns.raised(overruns.user, overruns.name, log_forecast, ended_before)


def _moments(submit_s: FloatArray, ended_s: FloatArray, every_s: float) -> tuple[float, ...]:
    """Return training times: every *every_s* from the first submission, if jobs follow and LEAST runs have ended."""
    if not every_s > 0:
        raise ValueError(f"training every {every_s} s: accepted are seconds above 0")
    since_s = float(submit_s.min(initial=np.inf))
    moments_s = since_s + every_s * np.unique(np.floor((submit_s - since_s) / every_s))
    enough = np.searchsorted(ended_s, moments_s) >= LEAST
    return tuple(moments_s[enough].tolist())


def as_outcomes(jobs: Workload, history: Workload | None = None) -> OutcomeTable:
    """Return each job as a run that started when it was submitted, those of *history* first."""
    parts = [jobs] if history is None else [history, jobs]

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    submit_s, runtime_s = column("submit_s"), column("runtime_s")
    nodes = np.maximum(column("nodes"), 1)
    columns = {name: column(name) for name in ("gpus", "time_limit_s")}
    names = ("user", "name", "account", "partition", "qos")
    texts = {name: _joined([getattr(part, name) for part in parts]) for name in names}
    return table_of(
        OutcomeTable,
        len(submit_s),
        {"state": JobState.COMPLETED},
        {
            **columns,
            **texts,
            "nodes": nodes,
            "cpus": nodes * np.maximum(column("cpus"), 1),
            "job_id": np.arange(len(submit_s)),
            "first_submit_s": submit_s,
            "eligible_s": submit_s,
            "started_s": submit_s,
            "ended_s": submit_s + runtime_s,
            "runtime_s": runtime_s,
        },
    )


def measured_in(jobs: Workload) -> list[tuple[str, Use]]:
    """Return the measured GPU use in the trace, each with its kind, as if every job had run when it was submitted."""
    some = jobs.take(np.isfinite(jobs.gpu_util))
    columns = (some.submit_s, some.submit_s + some.runtime_s, some.gpu_util, some.memory_util, some.gpu_memory_mib)
    uses = [
        Use(start_s, end_s, gpu_util, memory_util, mib, unstable=False)
        for start_s, end_s, gpu_util, memory_util, mib in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return [(kind_of(user, name), use) for user, name, use in zip(some.user, some.name, uses, strict=True)]


def _joined(columns: list[Labels]) -> Labels:
    shifts = np.cumsum([0, *(len(column.names) for column in columns)])
    codes = [column.codes + shift for column, shift in zip(columns, shifts.tolist(), strict=False)]
    return Labels(np.concatenate(codes), tuple(name for column in columns for name in column.names))
