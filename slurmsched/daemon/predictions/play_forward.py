"""The daemon's prediction service: the play-forward in its process, the database, the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from ...clock import Clock
from ...cluster.columns import FloatArray, IntArray
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.plan import Plan
from ...cluster.reasons import ReasonKind, reason_of
from ...cluster.records.prediction_records import PredictionRecords
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...config.service_settings import PredictSettings
from ...db.store import Store
from ...decide.policy import Policy
from ...errors import MissingExtra
from ...explain.eta import Eta, LivePredictions, admitted_last, delayed_jobs, etas
from ...explain.freed_queue import Queue
from ...powers import decide
from ..metrics import Metrics
from .prediction_process import PredictionFailed
from .prediction_service import PredictionService

NEEDS = str(MissingExtra("predictions need Numba, which compiles the simulator", "sim"))


@dataclass(frozen=True)
class PredictionStore:
    """The predictions of one cluster in the database."""

    store: Store
    cluster: str

    def load(self, since_s: float) -> PredictionRecords:
        """Return the predictions made since then."""
        return self.store.predictions(self.cluster, since_s)

    def save(self, records: PredictionRecords) -> None:
        """Write the new predictions of *records*, and the outcomes of the others."""
        if len(records):
            self.store.save_predictions(self.cluster, records)


class Player(Protocol):
    """What calls ``foresee.predict_completion``: a process beside the daemon's, or that of a replay."""

    def predict(
        self,
        view: View,
        rank: IntArray,
        standing: IntArray,
        config: Mapping[str, str],
        delayed_until_s: FloatArray | None = None,
    ) -> PredictionTable:
        """Return its result."""
        ...

    def close(self) -> None:
        """Stop what it started."""


@dataclass(frozen=True)
class PlayForward:
    """The play-forward in the order in force: ours where we act and may order, else Slurm's."""

    policy: Callable[[], Policy]
    config: Callable[[], Mapping[str, str]]
    player: Player

    def predict(self, view: View, plan: Plan, mode: str) -> PredictionTable:
        """Predict the starts and finishes of the jobs of *view*."""
        return self._played(self.order(view, plan, mode))

    def in_force(self, mode: str) -> bool:
        """Return True where our order is in force under *mode*."""
        return mode == "act" and "order" in self.policy().rules.powers

    def order(self, view: View, plan: Plan, mode: str) -> Queue:
        """Return the jobs of *view* as they are played forward."""
        rules, standing = self.policy().rules, plan.jobs.standing
        rows, nobody = np.arange(len(view.pending)), np.full(len(view.pending), -1, dtype=np.int64)
        ahead = np.full(len(rows), -1)
        if not self.in_force(mode):
            return Queue(view, nobody, standing, None, rows, ahead)
        delayed = delayed_jobs(view, plan)
        most_s = 0.0 if rules.deadlines is None else rules.deadlines.hold_most_s
        until_s = np.where(delayed, view.now_s + np.maximum(most_s - view.pending.delayed_s, 0.0), np.nan)
        view, rank = admitted_last(view, plan)
        return Queue(view, rank, standing, until_s, rows, ahead)

    def starts(self, queue: Queue) -> FloatArray:
        """Return when each pending job of *queue* starts; NaN where it is not known."""
        return self._played(queue).start_s[: len(queue.row)]

    def _played(self, queue: Queue) -> PredictionTable:
        if queue.delayed_until_s is None:
            return self.player.predict(queue.view, queue.rank, queue.standing, self.config())
        return self.player.predict(queue.view, queue.rank, queue.standing, self.config(), queue.delayed_until_s)

    def close(self) -> None:
        """Stop the process."""
        self.player.close()


def prediction_service(
    settings: PredictSettings, served: PlayForward, log: PredictionStore, clock: Clock, metrics: Metrics
) -> PredictionService | None:
    """Build the prediction service of these settings; None where it is off, or a dependency is missing."""
    if not settings.enabled or find_spec("numba") is None:
        return None
    band = settings.least, settings.most
    every_s, errors = settings.every_s, metrics.prediction_errors
    return PredictionService(served, log, clock, every_s, band, metrics.predictions, errors)


def live_predictions(settings: PredictSettings, made: PredictionService | None) -> LivePredictions:
    """Return the latest predictions, or why there are none."""
    if made is not None:
        return made.latest()
    return LivePredictions(trouble=NEEDS if settings.enabled else "predictions are off (predict.enabled)")


def with_new_job(made: PredictionService | None, view: View, job: JobTable, forecast: Forecast, policy: Policy) -> Eta:
    """Predict the start and finish of the hypothetical *job*; it comes last where priorities decide."""
    if made is None:
        raise PredictionFailed(NEEDS)
    least = int(view.pending.priority[view.pending.priority > 0].min(initial=1000))
    job = replace(job, priority=np.full(1, max(1, least - 1)))
    if reason_of(job.reason[0]).kind is ReasonKind.BEGIN:  # its begin time is counted by itself
        job = replace(job, reason=job.reason.renamed(["Priority"]))
    more = replace(view, pending=view.pending.joined(job), forecast=view.forecast.joined(forecast))
    table = made.try_out(more, decide(more, policy.ordering, policy.rules))
    return etas(table, view.now_s, [len(view.pending)])[0]
