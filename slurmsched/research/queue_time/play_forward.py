"""Our predictor: the functions behind ``slurmsched eta``, on the queue that the log had at each moment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.records.prediction_records import NO_RECORDS
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...foresee.predict_completion import predict_completion
from ...models.completion.completion_calibration import Calibration
from ...models.completion.prediction_log import before_windows, met, recent, with_new, without_lost
from ...models.runtime.baseline import RuntimeModel
from .known_queue import ended_runs, view_at
from .predictors import Moment
from .wait_log import WaitLog

LEARN_S = 6 * 3600.0
"""Time between two updates of the runtime model; a daemon learns in each cycle."""

CONFIG = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE", "PriorityType": "priority/multifactor"}
"""Of Slurm's configuration what matters: CPUs and GPUs are counted, and backfill reserves."""


class PlayForward:
    """Forecast runtimes, play the queue forward, correct the times by earlier errors, and remember the prediction."""

    name = "slurmsched"

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._records = NO_RECORDS
        self._model: RuntimeModel | None = None
        self._met: WaitLog | None = None
        self._learnt: WaitLog | None = None
        self._learnt_s = -np.inf

    def predict(self, moment: Moment) -> FloatArray:
        """Return the calibrated start of each row, after the moment; NaN where ``eta`` gives a reason instead."""
        view = self._forecast(view_at(moment.known, moment.now_s, shared=self._shared), moment)
        nobody = np.full(len(view.pending), -1, dtype=np.int64)
        raw = predict_completion(view, nobody, np.zeros_like(nobody), CONFIG)
        calibrated = self._calibrated(raw, view, moment)
        at = {job_id: row for row, job_id in enumerate(view.pending.job_id.tolist())}
        rows = np.array([at[row + 1] for row in moment.rows.tolist()], dtype=np.int64)
        times_s = [getattr(calibrated, name)[rows] for name in ("start_from_s", "start_s", "start_by_s")]
        return np.maximum(0.0, np.array(times_s) - moment.now_s)

    def _forecast(self, view: View, moment: Moment) -> View:
        """Return *view* with the forecasts of its jobs' runtimes."""
        if self._model is None or moment.now_s >= self._learnt_s + LEARN_S:
            ended = ended_runs(moment.known, self._learnt)
            self._model = RuntimeModel.fit(ended) if self._model is None else self._model.learn(ended)
            self._learnt, self._learnt_s = moment.known, moment.now_s
        return replace(
            view,
            forecast=self._model.forecast(view.pending, moment.now_s, view.running),
            forecast_running=self._model.forecast(view.running, moment.now_s),
        )

    def _calibrated(self, raw: PredictionTable, view: View, moment: Moment) -> PredictionTable:
        """Return *raw* corrected by the errors of earlier predictions; remember it for later ones."""
        records, _ = met(self._records, view.running, ended_runs(moment.known, self._met))
        records, _ = without_lost(records, view.pending, view.running)
        calibrated = Calibration.of(records, moment.now_s).calibrated(raw)
        records, _ = with_new(records, raw, calibrated, window=before_windows(raw, view))
        self._records, self._met = recent(records, moment.now_s), moment.known
        return calibrated
