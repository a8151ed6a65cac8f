"""What new jobs should ask for, learnt of the history every hour beside the cycles."""

from __future__ import annotations

import logging
from typing import Protocol

import numpy as np

from ..clock import Clock, Timer
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.usage import KeptUsage
from ..errors import SlurmschedError
from ..models.requests.suggestions import Suggester, Suggestion
from .cycle_follower import CycleFollower

logger = logging.getLogger(__name__)

EVERY_S = 3600.0
SPAN_S = 60 * 86_400.0  #: of the history that counts
MOST = 200_000  #: runs, the latest
AGAIN_S = 300.0  #: after a failure


class RunRecords(Protocol):
    """The part of the store that knows runs."""

    def history(self, cluster: str, since_s: float | None = None) -> OutcomeTable:
        """Return the runs that ended since then."""
        ...

    def run_use(self, cluster: str, since_s: float) -> KeptUsage:
        """Return what runs that ended since then used."""
        ...


class Suggestions(CycleFollower):
    """The latest Suggester, made anew every hour."""

    def __init__(self, records: RunRecords, cluster: str, clock: Clock) -> None:
        super().__init__("suggestions")
        self._records, self._cluster, self._clock = records, cluster, clock
        self._suggester: Suggester | None = None
        self._wait = Timer(clock.monotonic)

    def of(self, job: JobTable) -> Suggestion | None:
        """Return what covers 95 % of runs like *job*, a table of one row; None where no history was read yet."""
        if self._suggester is None:
            return None
        return self._suggester.suggest(job.user[0], job.name[0], int(job.gpus[0]), float(job.time_limit_s[0]))

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(AGAIN_S)
        since_s = self._clock.now() - SPAN_S
        history = self._records.history(self._cluster, since_s)
        history = history.take(np.arange(max(0, len(history) - MOST), len(history)))
        self._suggester = Suggester(history, self._records.run_use(self._cluster, since_s))
        self._wait.put_off(EVERY_S)

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("what jobs should ask for is not learnt anew: %s", error)

    def _abandon(self) -> None:
        """End nothing: a reading ends by the database's own time limit."""
