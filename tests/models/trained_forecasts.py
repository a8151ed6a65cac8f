"""Forecasts of models trained on a generated history: they must be the same on every processor.

``python -m models.trained_forecasts`` prints them as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from interpret import develop
from interpret.utils._native import Native
from models.outcome_worlds import busy_site, jobs_of
from models.test_throughput import QUICK, arrivals

from slurmsched.cluster.columns import FloatArray
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.arrivals import SERIES, WEEK
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.point_predictors import fit_trees
from slurmsched.models.throughput import ThroughputModel


def _digits(values: FloatArray) -> list[str]:
    return [f"{value:.9g}" for value in values.tolist()]


def _models(past: OutcomeTable) -> Iterator[tuple[str, Estimator | RuntimeModel]]:
    yield "additive", Estimator.fit(past)
    yield "baseline", RuntimeModel.fit(past)
    if find_spec("lightgbm"):
        yield "trees", Estimator.fit(past, how=fit_trees)


def forecasts() -> dict[str, list[str]]:
    """Return what each model forecasts, to nine digits: policies see runtimes in whole seconds."""
    past, jobs = busy_site(1_000), jobs_of(busy_site(200, 1))
    found: dict[str, list[str]] = {}
    for name, model in _models(past):
        forecast = model.forecast(jobs, 1e9)
        for column in ("runtime_s", "low_s", "high_s", "floor_s"):
            found[f"{name} {column}"] = _digits(getattr(forecast, column))
    coming = ThroughputModel.fit(arrivals(6 * WEEK), seed=1, boosting=QUICK).forecast(arrivals(2 * WEEK, 3))
    for series in SERIES:
        found[f"throughput {series}"] = _digits(getattr(coming, series))
    return found


if __name__ == "__main__":
    develop.set_option("acceleration", Native.AccelerationFlags_AVX2)  # interpret's choice on another processor
    json.dump(forecasts(), sys.stdout)
