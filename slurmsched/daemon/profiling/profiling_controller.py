"""Profiling around each cycle: limits follow the forecast of arrivals."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ...cluster.actions import MoveNodes
from ...cluster.records.outcomes import OutcomeTable
from ...cycle import CycleReport
from ...decide.policy import Policy
from ...decide.profiling_nodes import pressure
from ...errors import ConfigError, ModelUnusable
from ...models.registry import THROUGHPUT, ArtifactRegistry, Stamp
from ...models.throughput import LoadOutlook, ThroughputModel
from .arrival_counter import ArrivalCounter, by_median

logger = logging.getLogger(__name__)


class ProfilingController:
    """The daemon's work for new jobs around each cycle; none without a profiling partition in the rules."""

    def __init__(self, artifacts: ArtifactRegistry) -> None:
        self._artifacts, self._trouble = artifacts, ""
        self._arriving = ArrivalCounter()
        self._model = by_median()
        self._made_of: Stamp | None = None

    def learn(self, history: OutcomeTable) -> None:
        """Learn the earlier submissions."""
        self._arriving.learn(history)

    def under_pressure(self, policy: Policy, now_s: float) -> Policy:
        """Return *policy* with the profiling limits for the current load."""
        rules = policy.rules.profiling
        if rules is None:
            return policy
        rules = rules.under(self._pressure(now_s))
        return replace(policy, rules=replace(policy.rules, profiling=rules))

    def after(self, report: CycleReport) -> None:
        """Count the arrivals of a cycle, and warn of a move of nodes that a rule prevented."""
        self._arriving.observe(report)
        refusals = [one for one in report.plan.refusals if isinstance(one.action, MoveNodes)]
        trouble = refusals[0].detail if refusals else ""
        if trouble and trouble != self._trouble:
            logger.warning("no nodes were lent: %s", trouble)
        self._trouble = trouble

    def _pressure(self, now_s: float) -> float:
        return pressure(self.outlooks(now_s))

    def outlooks(self, now_s: float) -> Mapping[str, LoadOutlook]:
        """Return the forecasts of submissions, in jobs and GPUs; none before one day of data."""
        stamp = self._artifacts.stamp(THROUGHPUT)
        if stamp != self._made_of:
            self._made_of, self._model = stamp, self._trained() if stamp else by_median()
        return self._arriving.outlooks(self._model, now_s)

    def _trained(self) -> ThroughputModel:
        try:
            return self._artifacts.read(THROUGHPUT).read_as(ThroughputModel.of_document)
        except (ModelUnusable, ConfigError) as error:
            logger.warning("arrivals are forecast by their rolling median: %s", error)
            return by_median()
