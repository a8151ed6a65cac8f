"""The process that plays forward, as the daemon asks it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from daemon.daemon_worlds import view

from slurmsched.daemon.predictions.prediction_process import PredictionFailed, PredictionWorker


def test_a_question_does_not_wait_for_long_behind_another_one():
    player, asking, leave = (
        PredictionWorker("slurmsched.foresee.prediction_worker", patience_s=0.05),
        threading.Event(),
        threading.Event(),
    )

    class Slow:
        """A configuration that takes its time."""

        def __reduce__(self):
            asking.set()
            leave.wait(10.0)
            raise OSError("given up")

    def first():
        with pytest.raises(PredictionFailed):
            player.predict(seen, rank, rank, Slow())

    seen = view()
    rank = np.full(len(seen.pending), -1)
    other = threading.Thread(target=first)
    other.start()
    assert asking.wait(10.0)
    with pytest.raises(PredictionFailed, match="another prediction has been running"):
        player.predict(seen, rank, rank, {})
    leave.set()
    other.join()
    player.close()
