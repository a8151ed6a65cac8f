"""Serving: which model of runtimes forecasts, the one on the shelf or the baseline."""

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
    """Makes the model that serves, and knows when it is out of date.

    *wanted* is ``auto``, or ``baseline`` for that whatever lies on the shelf.
    """

    def __init__(self, artifacts: ArtifactRegistry, wanted: str) -> None:
        self.artifacts, self.wanted = artifacts, wanted
        self._made_of: tuple[str, Stamp | None] | None = None
        self._trouble = ""

    def stale(self) -> bool:
        """Whether there is none yet, the model on the shelf has changed, or another is wanted. Costs one stat."""
        return self._made_of != self._now()

    def model(self, history: OutcomeTable, profiles: Profiler | None = None) -> Model:
        """The model that serves and knows *history*, and by *profiles* how its runs used GPUs.

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
            )  # where it needs what is not installed, now is the time to know
        except (ModelUnusable, ConfigError) as error:
            self._trouble = str(error)
            logger.warning("the baseline forecasts: %s", error)
            return baseline
        return GuardedModel.of(trained, baseline, history)

    def described(self, model: Model) -> str:
        """What *model*, that this made, is, in words."""
        if isinstance(model, GuardedModel):
            return model.name
        if self.wanted == BASELINE:
            return "baseline: models.serve says so"
        return f"baseline: {self._trouble or 'no model of runtimes was trained yet'}"

    def _now(self) -> tuple[str, Stamp | None]:
        return self.wanted, self.artifacts.stamp(RUNTIME)


def drift_of(model: Model) -> Drift | None:
    """How the trained model in *model* compares with the baseline; None where there is none."""
    return model.drift if isinstance(model, GuardedModel) else None


def overrunners_of(model: Model) -> tuple[Overrunner, ...]:
    """Users whose runs went far beyond the forecasts of *model*; nobody where it does not learn."""
    return model.overrunners() if isinstance(model, GuardedModel | RuntimeModel) else ()
