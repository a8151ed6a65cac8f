"""The trained model with a guard: the baseline replaces it while it is clearly worse."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, Table
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from .baseline import RuntimeModel
from .estimator import Estimator
from .history_index import HistoryIndex
from .intervals import SHARES
from .model_selection import losses
from .overruns import Overrunner
from .point_predictors import Reason

WINDOW = 1000  #: latest runs on which the two are compared
LEAST = 200  #: with fewer runs the trained model is trusted
BY = 0.05  #: clearly worse is a pinball loss above the baseline's by this share,
SURE = 3.0  #: and by as many standard errors of the difference


@dataclass(frozen=True, eq=False)
class Losses(Table):
    """The losses of both models on runs that the trained one was not fitted to, in the order they ended."""

    model: FloatArray  #: pinball loss of the middle and the 90 % bound of log runtime
    baseline: FloatArray
    model_in_time: FloatArray  #: 1 where the run was done by the 90 % bound
    baseline_in_time: FloatArray


@dataclass(frozen=True)
class Drift:
    """The trained model against the baseline on the last runs; NaN where there are none."""

    runs: int
    model: float  #: mean pinball loss
    baseline: float
    model_coverage: float  #: share of runs done by the 90 % bound
    baseline_coverage: float
    worse: bool  #: True if the trained model is clearly worse, so that the baseline is active


@dataclass(frozen=True, eq=False)
class GuardedModel:
    """Forecasts by the trained *model*, or by the *baseline* while the model is clearly worse; ``port.Model``."""

    model: Estimator
    baseline: RuntimeModel
    losses: Losses

    @classmethod
    def of(cls, model: Estimator, baseline: RuntimeModel, history: OutcomeTable) -> Self:
        """Combine both models, which know *history*, compared on what ended after the trained one was fitted."""
        runs = HistoryIndex.of(history.take(history.ended_s > model.fitted_until_s), most=WINDOW).runs
        return cls(model, baseline, _losses(model, baseline, runs))

    @property
    def digest(self) -> str:
        """The SHA-256 of all the knowledge of both, in hex."""
        digest = hashlib.sha256(f"served 1 {self.model.digest} {self.baseline.digest}\n".encode("ascii"))
        for column in vars(self.losses).values():
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    @property
    def trained_until_s(self) -> float:
        """The Unix time before which all known runs ended."""
        return max(self.model.trained_until_s, self.baseline.trained_until_s)

    @property
    def name(self) -> str:
        """The name of the active model, with the reason."""
        drift = self.drift
        if drift.worse:
            return (
                f"baseline: the trained model was worse on the last {drift.runs} runs "
                f"(pinball loss {drift.model:.3f} against {drift.baseline:.3f})"
            )
        return f"trained: {self.model.center.kind}"

    @cached_property
    def drift(self) -> Drift:
        """The comparison of the two on the last runs."""
        losses = self.losses
        if not len(losses):
            return Drift(0, np.nan, np.nan, np.nan, np.nan, False)
        columns = (losses.model, losses.baseline, losses.model_in_time, losses.baseline_in_time)
        model, baseline, covered, baseline_covered = (float(column.mean()) for column in columns)
        more = losses.model - losses.baseline
        doubt = float(more.std()) / np.sqrt(len(more))
        worse = len(more) >= LEAST and bool(more.mean() > max(SURE * doubt, BY * baseline))
        return Drift(len(more), model, baseline, covered, baseline_covered, worse)

    def learn(self, new: OutcomeTable) -> Self:
        """Return the models with *new* added; before that, both are scored on these runs."""
        if not len(new):
            return self
        runs = HistoryIndex.of(new.take(new.ended_s > self.model.fitted_until_s)).runs
        losses = self.losses.joined(_losses(self.model, self.baseline, runs)).take(slice(-WINDOW, None))
        return replace(self, model=self.model.learn(new), baseline=self.baseline.learn(new), losses=losses)

    def forecast(self, jobs: JobTable, now_s: float | None = None, running: JobTable | None = None) -> Forecast:
        """Forecast each job's runtime from start to end with the active model."""
        return self._serving.forecast(jobs, now_s, running)

    def overrunners(self) -> tuple[Overrunner, ...]:
        """Return the users whose runs went far beyond their forecasts, by the active model."""
        return self._serving.overrunners()

    def reasons(self, jobs: JobTable, row: int) -> list[Reason]:
        """Return the terms of the forecast of the job in *row*; empty while the baseline is active."""
        return [] if self.drift.worse else self.model.reasons(jobs, row)

    @property
    def _serving(self) -> Estimator | RuntimeModel:
        return self.baseline if self.drift.worse else self.model


def _losses(model: Estimator, baseline: RuntimeModel, runs: OutcomeTable) -> Losses:
    truth = in_points(np.log(np.maximum(runs.runtime_s, 1.0)))
    ours, theirs = model.backtest(runs), baseline.backtest(runs)
    judged = np.flatnonzero(~np.isnan(ours).any(axis=0))
    columns = [losses(truth, bounds[1:], SHARES[1:]) for bounds in (ours, theirs)]
    columns += [(truth <= bounds[2]).astype(np.float64) for bounds in (ours, theirs)]
    return Losses(*(column[judged] for column in columns))
