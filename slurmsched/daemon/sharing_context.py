"""Inputs to sharing decisions beyond one observation: share scores, failed pairs and the load forecast."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ..cluster.jobs import JobTable
from ..cluster.records.faults import Mismatches
from ..cluster.state import ClusterState, View
from ..decide.policy import Policy
from ..decide.rules import SharingRules
from ..errors import ConfigError, ModelUnusable
from ..models.registry import SHARING, ArtifactRegistry, Stamp, shipped
from ..models.sharing.share_scores import scored, use_of
from ..models.sharing.sharing_model import SharingModel
from ..models.throughput import LoadOutlook
from ..policies.sharing import capacity

logger = logging.getLogger(__name__)

MismatchSource = Callable[[float], Mismatches]
Outlooks = Callable[[float], Mapping[str, LoadOutlook]]


class SharingContext:
    """Completes the views and the rules of decisions about sharing.

    For a time (Unix seconds), *mismatches* returns the pairs of jobs that clash, and *outlooks* the forecasts of
    submissions, if any.
    """

    def __init__(self, artifacts: ArtifactRegistry, mismatches: MismatchSource, outlooks: Outlooks) -> None:
        self._artifacts, self._mismatches, self._outlooks = artifacts, mismatches, outlooks
        self._model: SharingModel | None = None
        self._made_of: Stamp | None = None
        self._busy_share, self._scores = 1.0, False

    @property
    def model(self) -> SharingModel:
        """The model that scores: the trained one, else the one shipped with slurmsched."""
        stamp = self._artifacts.stamp(SHARING)
        if self._model is None or stamp != self._made_of:
            self._made_of, self._model = stamp, self._read(stamp)
        return self._model

    def scored(self, state: ClusterState) -> ClusterState:
        """Return *state* with the share scores of pending and running jobs, where jobs share."""
        if not self._scores:
            return state
        return scored(state, self.model)

    def with_sharing(self, policy: Policy, now_s: float) -> Policy:
        """Return *policy* with the mode for this moment, the speed curve, and the known mismatches of jobs."""
        rules = policy.rules.sharing
        self._scores = rules is not None and rules.makes_pairs
        if rules is None:
            return policy
        mode, outlook = rules.capacity, self._outlooks(now_s).get("jobs") if self._scores else None
        if outlook is not None:
            mode = capacity(mode, self._busy_share, outlook.ahead, outlook.now)
        curve, found = self.model.speeds.knots() if self._scores else rules.curve, self._mismatches(now_s)
        sharing = replace(rules, capacity=mode, curve=curve, failed=found.failed, unstable=found.unstable)
        return replace(policy, rules=replace(policy.rules, sharing=sharing))

    def note_scan(self, view: View, rules: SharingRules | None) -> None:
        """Note how busy the GPUs outside the shared partition are."""
        if rules is not None:
            self._busy_share = busy_share(view, rules.partition)

    def why(self, jobs: JobTable, row: int) -> str:
        """Explain the share score of one job."""
        return self.model.why(use_of(jobs.take(np.array([row]))), 0)

    def _read(self, stamp: Stamp | None) -> SharingModel:
        if stamp is not None:
            try:
                return self._artifacts.read(SHARING).read_as(SharingModel.of_document)
            except (ModelUnusable, ConfigError) as error:
                logger.warning("share scores come from the model that slurmsched brings: %s", error)
        return shipped().read_as(SharingModel.of_document)


def busy_share(view: View, without: str) -> float:
    """Return the share of the GPUs in use, 0..1, on nodes outside the partition *without*; 1 where there are none."""
    nodes = view.nodes
    counted = ~nodes.partitions.map([without in text.split(",") for text in nodes.partitions.names], np.bool_)
    # Free GPUs of a node that takes no jobs cannot be used.
    gpus = int(np.where(nodes.usable, nodes.gpus, nodes.gpus_used)[counted].sum())
    return float(nodes.gpus_used[counted].sum()) / gpus if gpus else 1.0
