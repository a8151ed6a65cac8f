"""Profiling around each cycle: limits follow the forecast of arrivals, and nodes follow the jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ...cluster.records.outcomes import OutcomeTable
from ...cycle import CycleReport
from ...decide.policy import Policy
from ...decide.profiling import waiting_gpus
from ...decide.profiling_nodes import pressure
from ...errors import ConfigError, ModelUnusable
from ...models.registry import THROUGHPUT, ArtifactRegistry, Stamp
from ...models.throughput import LoadOutlook, ThroughputModel
from .arrival_counter import ArrivalCounter, by_median
from .node_mover import NodeMover

logger = logging.getLogger(__name__)


class ProfilingController:
    """The daemon's work for new jobs around each cycle; none without a profiling partition in the rules."""

    def __init__(self, artifacts: ArtifactRegistry, lender: NodeMover) -> None:
        self._artifacts, self._node_mover = artifacts, lender
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

    def after(self, report: CycleReport, policy: Policy) -> None:
        """Count arrivals, and in act mode move nodes where that power is on."""
        self._arriving.observe(report)
        rules = policy.rules.profiling
        if report.mode != "act":
            return
        if rules is None or "nodes" not in policy.rules.powers or not rules.home:
            self._node_mover.end()
            return
        wanted = waiting_gpus(report.view, rules, report.plan.jobs.standing) if self._pressure(report.now_s) else 0
        self._node_mover.turn(report.view, rules, wanted)

    def lends(self) -> bool:
        """True if any partition is known to have other nodes than its admin gave it."""
        return self._node_mover.lends()

    def give_back(self) -> str:
        """Restore the nodes of every partition; return why that failed, empty for success."""
        return self._node_mover.give_back()

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
