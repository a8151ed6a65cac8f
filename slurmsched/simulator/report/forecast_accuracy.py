"""The accuracy of a policy's runtime forecasts, against the actual runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..replay import Replay


@dataclass(frozen=True)
class ForecastAccuracy:
    """Errors as shares of the runtime; NaN where the policy had true runtimes or no forecasts."""

    median_error: float  #: of |forecast - runtime| / runtime
    mean_error: float
    r2_log: float  #: R² of log forecast against log runtime; 1 is perfect, 0 no better than their mean
    unforecast: float  #: share of jobs without a forecast

    @classmethod
    def of(cls, replay: Replay) -> Self:
        """Compute the figures of *replay*; jobs without runtime are left out of the errors."""
        if replay.setup.forecast == "exact" or not len(replay.workload):
            return cls(np.nan, np.nan, np.nan, np.nan)
        forecast_s, runtime_s = replay.forecast_s[replay.measured], replay.workload.runtime_s[replay.measured]
        has_forecast = np.isfinite(forecast_s)
        unforecast = float(1 - has_forecast.mean())
        rows = np.flatnonzero(has_forecast & (runtime_s > 0) & (forecast_s > 0))
        if not len(rows):
            return cls(np.nan, np.nan, np.nan, unforecast)
        said_s, true_s = forecast_s[rows], runtime_s[rows]
        error = np.abs(said_s - true_s) / true_s
        true = np.log(true_s)
        around_mean = float(((true - true.mean()) ** 2).sum())
        left = float(((true - np.log(said_s)) ** 2).sum())
        r2 = 1 - left / around_mean if around_mean > 0 else np.nan
        return cls(float(np.median(error)), float(error.mean()), r2, unforecast)
