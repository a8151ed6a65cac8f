"""Inputs to sharing decisions beyond one observation: share scores and failed pairs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..cluster.filling import NOTHING, Knowing, NewColumns
from ..cluster.jobs import JobTable
from ..cluster.records.faults import Mismatches
from ..cluster.records.progress import NO_PROGRESS, ProgressTable
from ..cluster.state import ClusterState
from ..db.tracking.story import StoryEvent
from ..decide.policy import Policy
from ..errors import ConfigError, ModelUnusable
from ..models.registry import SHARING, ArtifactRegistry, Stamp, shipped
from ..models.sharing.share_scores import scores_of, use_of
from ..models.sharing.sharing_model import SharingModel
from .kept_speeds import KeptSpeeds, SharedTime

logger = logging.getLogger(__name__)

MismatchSource = Callable[[float], Mismatches]


class SharingContext(Knowing):
    """Completes the views and the rules of decisions about sharing.

    For a time (Unix seconds), *mismatches* returns the pairs of jobs that clash; *progress* what jobs report now.
    *tell* takes events of the stories of jobs.
    """

    def __init__(
        self,
        artifacts: ArtifactRegistry,
        mismatches: MismatchSource,
        progress: Callable[[], ProgressTable] = lambda: NO_PROGRESS,
        tell: Callable[[Sequence[StoryEvent]], None] = lambda events: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._artifacts, self._mismatches, self._progress, self._tell = artifacts, mismatches, progress, tell
        self._kept, self._now_s = KeptSpeeds(monotonic), 0.0
        self._factors: tuple[tuple[str, float], ...] = ()
        self._model: SharingModel | None = None
        self._made_of: Stamp | None = None
        self._scores = False

    @property
    def model(self) -> SharingModel:
        """The model that scores: the trained one, else the one shipped with slurmsched."""
        stamp = self._artifacts.stamp(SHARING)
        if self._model is None or stamp != self._made_of:
            self._made_of, self._model = stamp, self._read(stamp)
        return self._model

    def columns(self, state: ClusterState) -> NewColumns:
        """Return the share scores of pending and running jobs, where jobs share."""
        if not self._scores:
            return NOTHING
        over = self._kept.observe(state, self._progress(), self._now_s)
        if over:
            self._tell([self._story_of(one) for one in over])
        return scores_of(state, self.model)

    def _story_of(self, shared: SharedTime) -> StoryEvent:
        """Return what a job kept of its speed beside others: by its iterations, else by the curve."""
        measured = np.isfinite(shared.speed)
        part = dict(self._factors).get(shared.group[0], 1.0)
        speed = shared.speed if measured else part * float(self.model.speeds.speed(np.array([shared.util]))[0])
        details: dict[str, object] = {
            "speed": f"{speed:.2f}",
            "partners": ", ".join(map(str, shared.partners)),
            "seconds": f"{shared.seconds:.0f}",
            "source": "by its iterations" if measured else "as expected, not measured",
        }
        if measured and np.isfinite(shared.util):
            details |= {"kind": shared.group[0], "util": round(shared.util, 4)}  # train learns from these
        return StoryEvent(self._now_s, "shared with", details, shared.job_id)

    def with_sharing(self, policy: Policy, now_s: float) -> Policy:
        """Return *policy* with the speed curve, what kinds of jobs keep of it, and the known mismatches of jobs."""
        rules, self._now_s = policy.rules.sharing, now_s
        self._scores = rules is not None and rules.makes_pairs
        if rules is None:
            return policy
        found = self._mismatches(now_s)
        sharing = replace(rules, failed=found.failed, unstable=found.unstable)
        if self._scores:
            curve = self.model.speeds
            self._factors = self._kept.factors(curve.speed, self.model.kept)
            sharing = replace(sharing, curve=curve.knots(), kept=self._factors)
        return replace(policy, rules=replace(policy.rules, sharing=sharing))

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
