"""Predictions beside the cycle: when jobs start and finish, made in a thread of their own and kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Thread
from typing import Protocol

import numpy as np

from ...clock import Clock
from ...cluster.columns import BoolArray
from ...cluster.plan import Plan
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.prediction_records import NOTHING_KEPT, KeptTable
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...cycle import CycleReport
from ...decide.explain.eta import Coverage, Foretold, delayed_jobs
from ...errors import SlurmschedError
from ...models.completion.completion_calibration import Calibration
from ...models.completion.prediction_accuracy import accuracy
from ...models.completion.prediction_log import OLDEST_S, met, recent, with_new, without_lost

logger = logging.getLogger(__name__)

DAYS = 30.0  #: what a coverage speaks of
JUDGED = 50  #: finishes that it takes to raise an alarm


class Predictor(Protocol):
    """The play-forward."""

    def foretell(self, view: View, plan: Plan, mode: str) -> PredictionTable:
        """What becomes of the jobs of *view*, ordered by *plan* where the daemon acts; SlurmschedError for nothing."""
        ...

    def close(self) -> None:
        """Say no more, also in the middle of an answer."""
        ...


class Keeper(Protocol):
    """Where predictions outlive the daemon; raises MemoryUnavailable while it is away."""

    def load(self, since_s: float) -> KeptTable:
        """Those made since then."""
        ...

    def save(self, kept: KeptTable) -> None:
        """Write what is new of *kept*, and what came of the rest."""
        ...


class Foretelling:
    """Makes predictions at most every *every_s* seconds of the latest cycle there is; no cycle ever waits for them.

    *band* is where the share of jobs that end by the moment told should lie; *covered* is told the shares, and whether
    the finishes left it. Where nothing can be predicted the last table stays, with the trouble beside it.
    """

    def __init__(
        self,
        predictor: Predictor,
        keeper: Keeper,
        clock: Clock,
        every_s: float,
        band: tuple[float, float],
        covered: Callable[[Coverage, bool], None] = lambda coverage, alarm: None,
    ) -> None:
        self._predictor, self._keeper, self._clock = predictor, keeper, clock
        self._every_s, self._band, self._covered = every_s, band, covered
        self._news = Condition()
        self._report: CycleReport | None = None
        self._ended: list[OutcomeTable] = []
        self._stopping, self._made_s = False, -np.inf
        self._kept: KeptTable | None = None
        self._dirty: BoolArray = np.zeros(0, dtype=np.bool_)
        self._calibration, self._foretold, self._alarm = Calibration.of(NOTHING_KEPT), Foretold(), False
        self._thread = Thread(target=self._run, name="foretelling", daemon=True)

    def start(self) -> None:
        """Begin to listen to cycles."""
        self._thread.start()

    def close(self) -> None:
        """Make no more; what is being made is given up."""
        with self._news:
            self._stopping = True
            self._news.notify()
        self._predictor.close()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def saw(self, report: CycleReport) -> None:
        """Take note of a cycle; returns at once."""
        with self._news:
            self._report = report
            if len(report.ended):
                self._ended.append(report.ended)
            self._news.notify()

    def foretold(self) -> Foretold:
        """The latest predictions."""
        return self._foretold

    def try_out(self, view: View, plan: Plan) -> PredictionTable:
        """What would be told of the jobs of *view*, which nobody has submitted all of; nothing is kept."""
        mode = "observe" if self._report is None else self._report.mode
        return self._calibration.told(self._predictor.foretell(view, plan, mode))

    def once(self) -> None:
        """Predict for the latest cycle, in this thread; SlurmschedError where that does not work."""
        with self._news:
            report, ended, self._ended = self._report, self._ended, []
        if report is None:
            return
        self._made_s = self._clock.monotonic()
        delays = report.mode == "act" and bool(delayed_jobs(report.view, report.plan).any())
        self._follow(report, ended, delays)
        raw = self._predictor.foretell(report.view, report.plan, report.mode)
        told = self._calibration.told(raw)
        assert self._kept is not None
        self._kept, changed = with_new(self._kept, raw, told, delays=delays)
        changed[: len(self._dirty)] |= self._dirty
        self._dirty = changed
        self._foretold = Foretold(told, self._foretold.coverage)
        self._save()

    def _follow(self, report: CycleReport, ended: list[OutcomeTable], delays: bool) -> None:
        """Let what was predicted meet what came of it."""
        if self._kept is None:
            try:
                self._kept = self._keeper.load(report.now_s - OLDEST_S)
            except SlurmschedError as error:
                logger.warning("earlier predictions are not known yet: %s", error)
                self._ended = ended + self._ended
                raise
            self._dirty = np.zeros(len(self._kept), dtype=np.bool_)
        kept, view = self._kept, report.view
        for table in ended or [report.ended.take(slice(0, 0))]:
            kept, changed = met(kept, view.running, table)
            self._dirty = self._dirty | changed
        kept, lost = without_lost(kept, view.pending, view.running)
        self._kept, self._dirty = kept, self._dirty | lost
        self._calibration = Calibration.of(kept, report.now_s)
        self._cover(kept, report.now_s, delays)

    def _cover(self, kept: KeptTable, now_s: float, delays: bool) -> None:
        """Tell people of predictions made in times like these, and the metrics of all."""
        alike = _coverage(kept.take(np.flatnonzero(kept.delays == delays)), now_s, delays)
        self._foretold = replace(self._foretold, coverage=alike)
        coverage = _coverage(kept, now_s)
        if coverage is None:
            return
        alarm = coverage.finishes >= JUDGED and not self._band[0] <= coverage.done_by <= self._band[1]
        if alarm and not self._alarm:
            logger.warning("predictions: %.0f %% of jobs ended by the moment told, not 90 %%", 100 * coverage.done_by)
        self._alarm = alarm
        self._covered(coverage, alarm)

    def _save(self) -> None:
        assert self._kept is not None
        try:
            self._keeper.save(self._kept.take(np.flatnonzero(self._dirty)))
        except SlurmschedError as error:
            logger.warning("predictions are not saved now: %s", error)
            return
        made_s = float(self._kept.made_s.max(initial=-np.inf))
        self._kept = recent(self._kept, made_s)
        self._dirty = np.zeros(len(self._kept), dtype=np.bool_)

    def _run(self) -> None:
        done: CycleReport | None = None
        while True:
            with self._news:
                while not self._stopping and (self._report is done or self._report is None or self._early()):
                    self._news.wait()
                if self._stopping:
                    return
                done = self._report
            try:
                self.once()
            except SlurmschedError as error:
                self._failed(error)
            except Exception:  # a bug here must not leave people without a reason
                logger.exception("a bug in the predictions, please report it; they end here")
                self._foretold = replace(self._foretold, trouble="a bug has ended the predictions; see the log")
                return

    def _failed(self, error: SlurmschedError) -> None:
        if not self._stopping:  # which ends what is being made
            logger.warning("nothing was predicted: %s", error)
        self._foretold = replace(self._foretold, trouble=str(error))

    def _early(self) -> bool:
        return self._clock.monotonic() < self._made_s + self._every_s


def _coverage(kept: KeptTable, now_s: float, delays: bool = False) -> Coverage | None:
    """How the *kept* predictions came true; None where nothing came yet and no *delays* have to be told of."""
    rows = accuracy(kept, now_s, (DAYS,))
    if not rows:
        return Coverage(DAYS, 0, np.nan, 0, np.nan, delays) if delays else None
    starts, finishes = rows[0].starts, rows[0].finishes
    return Coverage(DAYS, finishes.jobs, finishes.by, starts.jobs, starts.by, delays)
