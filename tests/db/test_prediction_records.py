"""Predictions in the database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np

from slurmsched.cluster.records.prediction_records import KeptState, kept_table
from slurmsched.db.store import Store

DAY_S = 86400.0


def test_predictions_come_back_as_they_were_and_are_forgotten_in_time(tmp_path):
    kept = kept_table(
        2,
        job_id=[1, 2],
        made_s=[100.0, 200.0],
        partition=["gpu", "a,b"],
        scale=[0.5, 0.7],
        finish_s=[300.0, np.nan],
        number=[0, 1],
    )
    came = replace(kept, ended_s=np.array([400.0, np.nan]), state=np.array([int(KeptState.SETTLED), 0]))
    with closing(Store(f"sqlite:///{tmp_path}/s.db")) as store:
        store.upgrade()
        store.save_predictions("c", kept)
        assert store.predictions("c", 0.0).equals(kept)
        store.save_predictions("c", came)
        assert store.predictions("c", 0.0).equals(came)
        assert store.predictions("c", 150.0).job_id.tolist() == [2]
        assert len(store.predictions("other", 0.0)) == 0
        store.prune(100 * DAY_S, DAY_S, 1000 * DAY_S)
        assert len(store.predictions("c", 0.0)) == 0
