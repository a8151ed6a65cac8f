"""Predictions beside the cycle."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import Hold
from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.prediction_records import NO_RECORDS, PredictionRecords
from slurmsched.cluster.records.predictions import PredictionTable, prediction_table
from slurmsched.cluster.reservations import NO_RESERVATIONS
from slurmsched.daemon.predictions.prediction_service import PredictionService
from slurmsched.errors import MemoryUnavailable, SlurmschedError
from slurmsched.explain.eta import Coverage, coverage_words

NOW_S = 1_000_000.0


class Always:
    """Says that every job waits ten minutes and runs as long; or that it cannot say."""

    def __init__(self) -> None:
        self.trouble = ""

    def predict(self, view, plan, mode) -> PredictionTable:
        if self.trouble:
            raise SlurmschedError(self.trouble)
        count = len(view.pending)
        at = {name: np.full(count, view.now_s + 600.0) for name in ("start_s", "start_from_s", "start_by_s")}
        ends = {name: np.full(count, view.now_s + 1200.0) for name in ("finish_s", "finish_from_s", "finish_by_s")}
        made = np.full(count, view.now_s)
        return prediction_table(
            count, job_id=view.pending.job_id, first_submit_s=view.pending.first_submit_s, made_s=made, **at, **ends
        )

    def close(self) -> None:
        pass


class Book:
    """A database in a list."""

    def __init__(self) -> None:
        self.rows: list[PredictionRecords] = []
        self.away = False

    def load(self, since_s: float) -> PredictionRecords:
        return NO_RECORDS

    def save(self, kept: PredictionRecords) -> None:
        if self.away:
            raise MemoryUnavailable("the database is away")
        self.rows.append(kept)


def report(now_s: float, *job_ids: int, holds: tuple[int, ...] = (), ended=None):
    """A cycle that saw these jobs wait, delayed those in *holds*, and saw runs end."""
    pending = job_table(len(job_ids), job_id=list(job_ids), first_submit_s=np.full(len(job_ids), NOW_S))
    view = SimpleNamespace(now_s=now_s, pending=pending, running=job_table(0), reservations=NO_RESERVATIONS)
    standing = np.full(len(job_ids), int(Standing.RANKED))
    plan = SimpleNamespace(actions=[Hold(job, now_s + 30.0) for job in holds], jobs=SimpleNamespace(standing=standing))
    return SimpleNamespace(
        view=view, plan=plan, mode="act", now_s=now_s, ended=outcomes_of(()) if ended is None else ended
    )


@pytest.fixture
def predictions():
    errors = []
    made = PredictionService(
        Always(), Book(), ManualClock(), 60.0, (0.85, 0.95), judged=lambda of, errors_s: errors.append((of, *errors_s))
    )
    made.errors = errors
    made.predictor, made.book = made._predictor, made._log
    return made


def test_before_the_first_cycle_there_is_nothing_and_a_reason(predictions):
    predictions.once()
    assert predictions.latest().table is None
    assert "ask again" in predictions.latest().why_none


def test_each_job_is_foretold_and_kept_once(predictions):
    for now_s in (NOW_S, NOW_S + 60):
        predictions.observe(report(now_s, 1, 2))
        predictions.once()
    table = predictions.latest().table
    assert table is not None
    assert table.job_id.tolist() == [1, 2]
    assert [kept.job_id.tolist() for kept in predictions.book.rows] == [[1, 2], []]


def test_how_far_to_trust_predictions_is_told_of_those_made_in_times_like_these(predictions):
    predictions.observe(report(NOW_S, 1))
    predictions.once()
    predictions.observe(report(NOW_S + 60, 1, 2, holds=(1,)))
    predictions.once()
    assert "while jobs were delayed for promises, as now, has come true" in coverage_words(
        predictions.latest().coverage
    )
    job = JobRecord(1, 0, -1, 1, "n", "u", "a", "q", "p", 1, 1, 1, 3600.0, NOW_S, NOW_S, NOW_S + 600, 0, NOW_S)
    late = job._replace(job_id=2)
    ends = outcomes_of(
        [EndedRun(job, NOW_S + 1100, JobState.COMPLETED), EndedRun(late, NOW_S + 9000, JobState.COMPLETED)]
    )
    predictions.errors.clear()
    predictions.observe(report(NOW_S + 9060, ended=ends))
    predictions.once()
    assert predictions.errors == [("start", 0.0, 60.0), ("finish", 100.0, 7740.0)]
    assert predictions.latest().coverage == Coverage(30.0, 1, 1.0, 1, 1.0)
    predictions.observe(report(NOW_S + 9120, 3, holds=(3,)))
    predictions.once()
    assert predictions.latest().coverage == Coverage(30.0, 1, 0.0, 1, 1.0, delays=True)


def test_what_could_not_be_saved_is_saved_later(predictions):
    predictions.book.away = True
    predictions.observe(report(NOW_S, 1))
    predictions.once()
    predictions.book.away = False
    predictions.observe(report(NOW_S + 60, 1, 2))
    predictions.once()
    assert predictions.book.rows[0].job_id.tolist() == [1, 2]


def test_where_nothing_can_be_said_the_last_predictions_stay(predictions):
    predictions.observe(report(NOW_S, 1))
    predictions.once()
    predictions.predictor.trouble = "no"
    predictions.observe(report(NOW_S + 60, 2))
    with pytest.raises(SlurmschedError, match="no"):
        predictions.once()
    assert predictions.latest().table.job_id.tolist() == [1]


def test_a_thread_predicts_for_the_cycles_it_is_told_of(predictions):
    predictions.observe(report(NOW_S, 7))
    predictions.start()
    for _ in range(500):
        if predictions.latest().table is not None:
            break
        predictions._thread.join(0.01)
    predictions.close()
    assert predictions.latest().table.job_id.tolist() == [7]


class Killed(Always):
    """At work until it is closed, which kills it as the process that plays forward is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.busy, self.closed = threading.Event(), threading.Event()

    def predict(self, view, plan, mode) -> PredictionTable:
        self.busy.set()
        assert self.closed.wait(60.0)
        raise SlurmschedError("the process that plays forward has died")

    def close(self) -> None:
        self.closed.set()


def test_an_ordered_stop_in_the_middle_of_a_prediction_is_no_trouble(caplog):
    predictor = Killed()
    predictions = PredictionService(predictor, Book(), ManualClock(), 60.0, (0.85, 0.95))
    predictions.observe(report(NOW_S, 7))
    predictions.start()
    assert predictor.busy.wait(60.0)
    predictions.close()
    assert "predictions" not in [thread.name for thread in threading.enumerate()]
    assert caplog.text == ""
