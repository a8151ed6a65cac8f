"""The choice of the active runtime model: the registered one or the baseline."""

from __future__ import annotations

import logging

from ...cluster.jobs import job_table
from ...cluster.records.outcomes import OutcomeTable
from ...errors import ConfigError, ModelUnusable
from ..port import Model
from ..registry import RUNTIME, ArtifactRegistry, Stamp
from .baseline import RuntimeModel
from .estimator import Estimator
from .guarded import Drift, GuardedModel
from .model_selection import Profiler
from .overruns import Overrunner

logger = logging.getLogger(__name__)

BASELINE = "baseline"


class ActiveModel:
    """Builds the active model, and detects when it is out of date.

    *wanted* is ``auto``, or ``baseline`` to use that whatever the registry holds.
    """

    def __init__(self, artifacts: ArtifactRegistry, wanted: str) -> None:
        self.artifacts, self.wanted = artifacts, wanted
        self._made_of: tuple[str, Stamp | None] | None = None
        self._trouble = ""

    def stale(self) -> bool:
        """Return True if no model was built yet, the registered one changed, or another is wanted. Costs one stat."""
        return self._made_of != self._now()

    def model(self, history: OutcomeTable, profiles: Profiler | None = None) -> Model:
        """Build the active model with *history*, and with the GPU use of its runs by *profiles*.

        It is the baseline, with one warning, where the trained one is unusable.
        """
        self._made_of, self._trouble = self._now(), ""
        baseline = RuntimeModel.fit(history)
        if self.wanted == BASELINE or self._made_of[1] is None:
            return baseline
        try:
            trained = self.artifacts.read(RUNTIME).read_as(
                lambda document: Estimator.of_document(document, history, profiles)
            )
            trained.forecast(
                job_table(1, name=["not trained on"])
            )  # a missing dependency must show now, not at the first forecast
        except (ModelUnusable, ConfigError) as error:
            self._trouble = str(error)
            logger.warning("the baseline forecasts: %s", error)
            return baseline
        return GuardedModel.of(trained, baseline, history)

    def described(self, model: Model) -> str:
        """Describe *model*, built here, in words."""
        if isinstance(model, GuardedModel):
            return model.name
        if self.wanted == BASELINE:
            return "baseline: models.serve says so"
        return f"baseline: {self._trouble or 'no model of runtimes was trained yet'}"

    def _now(self) -> tuple[str, Stamp | None]:
        return self.wanted, self.artifacts.stamp(RUNTIME)


def drift_of(model: Model) -> Drift | None:
    """Compare the trained model in *model* with the baseline; None where there is no trained one."""
    return model.drift if isinstance(model, GuardedModel) else None


def overrunners_of(model: Model) -> tuple[Overrunner, ...]:
    """Return users whose runs went far beyond the forecasts of *model*; empty where it does not learn."""
    return model.overrunners() if isinstance(model, GuardedModel | RuntimeModel) else ()
