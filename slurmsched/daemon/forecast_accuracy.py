"""The accuracy of forecasts: the one in force when a job started, against its runtime."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import View

WINDOW = 1000  #: the latest ended runs that the coverage counts


@dataclass(frozen=True)
class PendingForecast:
    """A forecast, in seconds."""

    runtime_s: float
    low_s: float
    high_s: float


class ForecastTracker:
    """Remembers the last forecast of each job before its start, and judges it when the run ends.

    Stores three numbers per running job and ``WINDOW`` verdicts, in memory only.
    """

    def __init__(self) -> None:
        self._running: dict[int, PendingForecast] = {}
        self._pending: tuple[JobTable, Forecast] | None = None
        self._inside: deque[bool] = deque(maxlen=WINDOW)

    def observe(self, view: View) -> None:
        """Record the forecasts in *view* for newly started jobs, and forget jobs that are gone."""
        ids = view.running.job_id.tolist()
        still_running = {job_id: self._running[job_id] for job_id in ids if job_id in self._running}
        for row, job_id in enumerate(ids):
            if job_id not in still_running:
                forecast = self._when_pending(job_id) or _forecast_of(view.forecast_running, row)
                if forecast:
                    still_running[job_id] = forecast
        self._running, self._pending = still_running, (view.pending, view.forecast)

    def judge(self, ended: OutcomeTable) -> list[float]:
        """Return the error of each forecast whose run is in *ended*: |forecast - runtime| / runtime.

        Call before ``observe`` of the same cycle, which forgets the jobs that ended.
        """
        errors = []
        for row, job_id in enumerate(ended.job_id.tolist()):
            runtime_s = float(ended.runtime_s[row])
            forecast = self._running.get(job_id) or self._when_pending(job_id)
            if forecast and runtime_s > 0:
                errors.append(abs(forecast.runtime_s - runtime_s) / runtime_s)
                self._inside.append(forecast.low_s <= runtime_s <= forecast.high_s)
        return errors

    @property
    def coverage(self) -> float:
        """The share of the latest runs that ended inside their interval; NaN before the first."""
        return sum(self._inside) / len(self._inside) if self._inside else float("nan")

    def _when_pending(self, job_id: int) -> PendingForecast | None:
        if self._pending is None:
            return None
        jobs, forecast = self._pending
        row = jobs.row_of(job_id)
        return None if row is None else _forecast_of(forecast, row)


def _forecast_of(forecast: Forecast, row: int) -> PendingForecast | None:
    pending = PendingForecast(float(forecast.runtime_s[row]), float(forecast.low_s[row]), float(forecast.high_s[row]))
    return pending if np.isfinite(pending.runtime_s) else None
