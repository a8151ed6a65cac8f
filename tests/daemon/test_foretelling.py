"""Predictions beside the cycle."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.kept import NOTHING_KEPT, KeptTable
from slurmsched.cluster.known import outcomes_of
from slurmsched.cluster.predictions import PredictionTable, prediction_table
from slurmsched.daemon.foretelling import Foretelling
from slurmsched.errors import MemoryUnavailable, SlurmschedError

NOW_S = 1_000_000.0


class Always:
    """Says that every job waits ten minutes and runs as long; or that it cannot say."""

    def __init__(self) -> None:
        self.trouble = ""

    def foretell(self, view, plan, mode) -> PredictionTable:
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
        self.rows: list[KeptTable] = []
        self.away = False

    def load(self, since_s: float) -> KeptTable:
        return NOTHING_KEPT

    def save(self, kept: KeptTable) -> None:
        if self.away:
            raise MemoryUnavailable("the database is away")
        self.rows.append(kept)


def report(now_s: float, *job_ids: int):
    """A cycle that saw these jobs wait."""
    pending = job_table(len(job_ids), job_id=list(job_ids), first_submit_s=np.full(len(job_ids), NOW_S))
    view = SimpleNamespace(now_s=now_s, pending=pending, running=job_table(0))
    return SimpleNamespace(view=view, plan=None, mode="observe", now_s=now_s, ended=outcomes_of(()))


@pytest.fixture
def foretelling():
    made = Foretelling(Always(), Book(), ManualClock(), 60.0, (0.85, 0.95))
    made.predictor, made.book = made._predictor, made._keeper
    return made


def test_before_the_first_cycle_there_is_nothing_and_a_reason(foretelling):
    foretelling.once()
    assert foretelling.foretold().table is None
    assert "ask again" in foretelling.foretold().trouble


def test_each_job_is_foretold_and_kept_once(foretelling):
    for now_s in (NOW_S, NOW_S + 60):
        foretelling.saw(report(now_s, 1, 2))
        foretelling.once()
    table = foretelling.foretold().table
    assert table is not None
    assert table.job_id.tolist() == [1, 2]
    assert [kept.job_id.tolist() for kept in foretelling.book.rows] == [[1, 2], []]


def test_what_could_not_be_saved_is_saved_later(foretelling):
    foretelling.book.away = True
    foretelling.saw(report(NOW_S, 1))
    foretelling.once()
    foretelling.book.away = False
    foretelling.saw(report(NOW_S + 60, 1, 2))
    foretelling.once()
    assert foretelling.book.rows[0].job_id.tolist() == [1, 2]


def test_where_nothing_can_be_said_the_last_predictions_stay(foretelling):
    foretelling.saw(report(NOW_S, 1))
    foretelling.once()
    foretelling.predictor.trouble = "no"
    foretelling.saw(report(NOW_S + 60, 2))
    with pytest.raises(SlurmschedError, match="no"):
        foretelling.once()
    assert foretelling.foretold().table.job_id.tolist() == [1]


def test_a_thread_predicts_for_the_cycles_it_is_told_of(foretelling):
    foretelling.saw(report(NOW_S, 7))
    foretelling.start()
    for _ in range(500):
        if foretelling.foretold().table is not None:
            break
        foretelling._thread.join(0.01)
    foretelling.close()
    assert foretelling.foretold().table.job_id.tolist() == [7]
