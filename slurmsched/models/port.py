"""The border to what forecasts runtimes: what every model promises."""

from __future__ import annotations

from typing import Protocol, Self

from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable


class Model(Protocol):
    """Something that was learnt from outcomes and says how long jobs run. Immutable; the same history gives the same
    model, bit for bit, in whatever order its rows came."""

    @property
    def digest(self) -> str:
        """SHA-256 of all it knows, in hex; two models with one digest forecast the same."""
        ...

    @property
    def trained_until_s(self) -> float:
        """It knows only runs that ended before this Unix time; -infinity where it knows none."""
        ...

    def forecast(self, jobs: JobTable, now_s: float | None = None) -> Forecast:
        """Runtime from start to end of each job; never NaN, above 0, at most the job's time limit.

        With *now_s* a running job's forecast allows for the time it has already run; pending jobs ignore it.
        """
        ...

    def learn(self, new: OutcomeTable) -> Self:
        """The model that also knows *new*."""
        ...
