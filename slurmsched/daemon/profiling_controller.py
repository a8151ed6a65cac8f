"""Profiling around each cycle: the forecast of arrivals, which limits follow."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from ..cluster.actions import MoveNodes
from ..cluster.records.outcomes import OutcomeTable
from ..cycle import CycleReport
from ..models.arrival_counter import ArrivalCounter
from ..models.registry import THROUGHPUT, ArtifactRegistry, Stamp
from ..models.throughput import LoadOutlook, active_throughput

logger = logging.getLogger(__name__)


class ProfilingController:
    """The daemon's work for new jobs around each cycle; none without a profiling partition in the rules."""

    def __init__(self, artifacts: ArtifactRegistry) -> None:
        self._artifacts, self._trouble = artifacts, ""
        self.arrivals = ArrivalCounter()
        self._made_of: Stamp | None = None

    def learn(self, history: OutcomeTable) -> None:
        """Learn the earlier submissions."""
        first = np.flatnonzero(history.restart == 0)
        self.arrivals.learn(history.first_submit_s[first], history.gpus[first])

    def after(self, report: CycleReport) -> None:
        """Count the arrivals of a cycle, and warn of a move of nodes that a rule prevented."""
        self.arrivals.observe(report.view, report.ended)
        refusals = [one for one in report.plan.refusals if isinstance(one.action, MoveNodes)]
        trouble = refusals[0].detail if refusals else ""
        if trouble and trouble != self._trouble:
            logger.warning("no nodes were lent: %s", trouble)
        self._trouble = trouble

    def outlooks(self, now_s: float) -> Mapping[str, LoadOutlook]:
        """Return the forecasts of submissions, in jobs and GPUs; none before one day of data."""
        stamp = self._artifacts.stamp(THROUGHPUT)
        if stamp != self._made_of:
            self._made_of, self.arrivals.model = stamp, active_throughput(self._artifacts)
        return self.arrivals.outlooks(now_s)
