"""A model with fixed forecasts: exact runtimes, time limits, or those of another model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable


@dataclass(frozen=True)
class FixedForecast:
    """A ``Model`` for simulations: one forecast per job id; row *i* of *forecasts* belongs to ``job_id[i]``."""

    job_id: IntArray
    forecasts: Forecast

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all forecasts, in hex."""
        columns = (
            self.job_id,
            self.forecasts.runtime_s,
            self.forecasts.low_s,
            self.forecasts.high_s,
            self.forecasts.floor_s,
        )
        return hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()

    @property
    def trained_until_s(self) -> float:
        """Minus infinity: the model knows no runs."""
        return -np.inf

    def learn(self, new: OutcomeTable) -> Self:
        """Return the model itself, which does not learn."""
        return self

    def forecast(self, jobs: JobTable, now_s: float | None = None, running: JobTable | None = None) -> Forecast:
        """Return the fixed forecast of each job; KeyError for a job without one."""
        at = np.minimum(np.searchsorted(self._sorted, jobs.job_id), max(0, len(self.job_id) - 1))
        rows = self._order[at] if len(self.job_id) else at
        if unknown := jobs.job_id[self.job_id[rows] != jobs.job_id].tolist():
            raise KeyError(f"there is no forecast for job {unknown[0]}")
        return self.forecasts.take(rows)

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.job_id, kind="stable")

    @cached_property
    def _sorted(self) -> IntArray:
        return self.job_id[self._order]
