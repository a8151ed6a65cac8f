"""Predictions of starts and finishes, made in a thread beside the cycle and recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from ...clock import Clock
from ...cluster.columns import BoolArray, FloatArray
from ...cluster.plan import Plan
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.prediction_records import NO_RECORDS, PredictionRecords
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...cycle import CycleReport
from ...errors import SlurmschedError
from ...explain.eta import Coverage, LivePredictions, delayed_jobs
from ...models.completion.completion_calibration import Calibration
from ...models.completion.prediction_accuracy import accuracy
from ...models.completion.prediction_log import OLDEST_S, before_windows, met, recent, with_new, without_lost
from ..cycle_follower import CycleFollower

logger = logging.getLogger(__name__)

DAYS = 30.0  #: the period of a coverage
JUDGED = 50  #: finishes needed to raise an alarm


class Predictor(Protocol):
    """The play-forward."""

    def predict(self, view: View, plan: Plan, mode: str) -> PredictionTable:
        """Predict the jobs of *view*, ordered by *plan* where the daemon acts; SlurmschedError where it cannot."""
        ...

    def close(self) -> None:
        """Make no more predictions; one under way is abandoned."""
        ...


class PredictionLog(Protocol):
    """The store in which predictions outlive the daemon; raises MemoryUnavailable while it is away."""

    def load(self, since_s: float) -> PredictionRecords:
        """Return the predictions made since then."""
        ...

    def save(self, records: PredictionRecords) -> None:
        """Write the new predictions of *records*, and the outcomes of the others."""
        ...


class PredictionService(CycleFollower):
    """Predicts for the latest cycle, at most every *every_s* seconds.

    *band* is the accepted range for the share of jobs that end by their predicted time; *covered* is called with the
    coverage, and whether the finishes left the band; *judged* with ``start`` or ``finish`` and the absolute errors in
    seconds of predictions that have met their outcome. Where no prediction is possible the last table stays, with the
    error beside it.
    """

    def __init__(
        self,
        predictor: Predictor,
        keeper: PredictionLog,
        clock: Clock,
        every_s: float,
        band: tuple[float, float],
        covered: Callable[[Coverage, bool], None] = lambda coverage, alarm: None,
        judged: Callable[[str, FloatArray], None] = lambda of, errors_s: None,
    ) -> None:
        super().__init__("predictions")
        self._predictor, self._log, self._clock = predictor, keeper, clock
        self._every_s, self._band, self._covered, self._judged = every_s, band, covered, judged
        self._ended: list[OutcomeTable] = []
        self._made_s = -np.inf
        self._records: PredictionRecords | None = None
        self._dirty: BoolArray = np.zeros(0, dtype=np.bool_)
        self._calibration, self._latest, self._alarm = Calibration.of(NO_RECORDS), LivePredictions(), False

    @property
    def degraded(self) -> str:
        """Why nothing was predicted."""
        trouble = self.latest().trouble
        return f"no new predictions: {trouble}" if trouble else ""

    def latest(self) -> LivePredictions:
        """Return the latest predictions."""
        return self._latest

    def try_out(self, view: View, plan: Plan) -> PredictionTable:
        """Predict for the jobs of *view*, some of them hypothetical; nothing is recorded."""
        mode = "observe" if self._report is None else self._report.mode
        return self._calibration.calibrated(self._predictor.predict(view, plan, mode))

    def once(self) -> None:
        """Predict for the latest cycle, in this thread; SlurmschedError where that fails."""
        with self._news:
            report, ended, self._ended = self._report, self._ended, []
        if report is None:
            return
        self._made_s = self._clock.monotonic()
        delays = report.mode == "act" and bool(delayed_jobs(report.view, report.plan).any())
        self._follow(report, ended, delays)
        raw = self._predictor.predict(report.view, report.plan, report.mode)
        calibrated = self._calibration.calibrated(raw)
        assert self._records is not None
        self._records, changed = with_new(
            self._records, raw, calibrated, delays=delays, window=before_windows(raw, report.view)
        )
        changed[: len(self._dirty)] |= self._dirty
        self._dirty = changed
        self._latest = LivePredictions(calibrated, self._latest.coverage)
        self._save()

    def _follow(self, report: CycleReport, ended: list[OutcomeTable], delays: bool) -> None:
        """Compare earlier predictions with their outcomes."""
        if self._records is None:
            try:
                self._records = self._log.load(report.now_s - OLDEST_S)
            except SlurmschedError as error:
                logger.warning("earlier predictions are not loaded yet: %s", error)
                self._ended = ended + self._ended
                raise
            self._dirty = np.zeros(len(self._records), dtype=np.bool_)
        records, view = self._records, report.view
        for table in ended or [report.ended.take(slice(0, 0))]:
            before = records
            records, changed = met(records, view.running, table)
            self._judge(before, records)
            self._dirty = self._dirty | changed
        records, lost = without_lost(records, view.pending, view.running)
        self._records, self._dirty = records, self._dirty | lost
        self._calibration = Calibration.of(records, report.now_s)
        self._cover(records, report.now_s, delays)

    def _judge(self, before: PredictionRecords, records: PredictionRecords) -> None:
        """Publish the errors of predictions whose outcome is known in *records*, and was not in *before*."""
        for of, new, errors_s in (
            ("start", records.started & ~before.started, records.started_s - records.start_s),
            ("finish", records.settled & ~before.settled, records.ended_s - records.finish_s),
        ):
            self._judged(of, np.abs(errors_s[new & np.isfinite(errors_s)]))

    def _cover(self, records: PredictionRecords, now_s: float, delays: bool) -> None:
        """Publish coverage: to users that of predictions under like conditions, to the metrics that of all."""
        alike = _coverage(records.take(np.flatnonzero(records.delays == delays)), now_s, delays)
        self._latest = replace(self._latest, coverage=alike)
        coverage = _coverage(records, now_s)
        if coverage is None:
            return
        alarm = coverage.finishes >= JUDGED and not self._band[0] <= coverage.done_by <= self._band[1]
        if alarm and not self._alarm:
            logger.warning(
                "predictions: %.0f %% of jobs ended by their predicted time, not 90 %%", 100 * coverage.done_by
            )
        self._alarm = alarm
        self._covered(coverage, alarm)

    def _save(self) -> None:
        assert self._records is not None
        try:
            self._log.save(self._records.take(np.flatnonzero(self._dirty)))
        except SlurmschedError as error:
            logger.warning("predictions are not saved now: %s", error)
            return
        made_s = float(self._records.made_s.max(initial=-np.inf))
        self._records = recent(self._records, made_s)
        self._dirty = np.zeros(len(self._records), dtype=np.bool_)

    def _note(self, report: CycleReport) -> bool:
        if len(report.ended):
            self._ended.append(report.ended)
        return True

    def _due(self) -> bool:
        return self._clock.monotonic() >= self._made_s + self._every_s

    def _work(self) -> None:
        self.once()

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("nothing was predicted: %s", error)
        self._latest = replace(self._latest, trouble=str(error))

    def _broken(self) -> None:  # users get the reason
        self._latest = replace(self._latest, trouble="a bug has ended the predictions; see the log")

    def _abandon(self) -> None:
        self._predictor.close()


def _coverage(records: PredictionRecords, now_s: float, delays: bool = False) -> Coverage | None:
    """Return the coverage of *records*; None where there are no outcomes yet and no *delays* to report."""
    rows = accuracy(records, now_s, (DAYS,))
    if not rows:
        return Coverage(DAYS, 0, np.nan, 0, np.nan, delays) if delays else None
    starts, finishes = rows[0].starts, rows[0].finishes
    return Coverage(DAYS, finishes.jobs, finishes.by, starts.jobs, starts.by, delays)
