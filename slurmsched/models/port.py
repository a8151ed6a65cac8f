"""The interface of runtime models, and what each of them guarantees."""

from __future__ import annotations

from typing import Protocol, Self

from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable


class Model(Protocol):
    """A runtime forecaster trained on ended runs. Immutable.

    The same history gives the same model, bit for bit, in whatever order its rows came.
    """

    @property
    def digest(self) -> str:
        """The SHA-256 of all the model's knowledge, in hex; two models with one digest forecast the same."""
        ...

    @property
    def trained_until_s(self) -> float:
        """The Unix time before which all runs known to the model ended; -infinity where it knows none."""
        ...

    def forecast(self, jobs: JobTable, now_s: float | None = None, running: JobTable | None = None) -> Forecast:
        """Forecast each job's runtime from start to end; never NaN, above 0, at most the job's time limit.

        With *now_s* a running job's forecast allows for the time it has already run; pending jobs ignore it. *running*
        jobs that have lasted far beyond their forecasts by *now_s* count for the ranks of their users' jobs.
        """
        ...

    def learn(self, new: OutcomeTable) -> Self:
        """Return a model that also knows *new*."""
        ...
