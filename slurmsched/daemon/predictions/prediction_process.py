"""The play-forward in a process of its own, started when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping

from ...child_process import PATIENCE_S, ChildFailed, ChildProcess
from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...errors import SlurmschedError

TIMEOUT_S = 300.0
"""The limit for one answer; the first one may have to wait for the compiler."""


class PredictionFailed(SlurmschedError):
    """No prediction is possible this time; the text says why."""


class PredictionWorker:
    """Queries the process that runs the module *worker*, one request at a time."""

    def __init__(self, worker: str, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S) -> None:
        self._timeout_s, self._process = timeout_s, ChildProcess(worker, "prediction", patience_s)

    def predict(
        self,
        view: View,
        rank: IntArray,
        standing: IntArray,
        config: Mapping[str, str],
        delayed_until_s: FloatArray | None = None,
    ) -> PredictionTable:
        """Return the result of ``foresee.predict_completion``; PredictionFailed where there is none."""
        try:
            error, table = self._process.ask((view, rank, standing, config, delayed_until_s), self._timeout_s)
        except ChildFailed as failure:
            raise PredictionFailed(str(failure)) from failure
        if table is None:
            raise PredictionFailed(f"the play-forward failed: {error}")
        assert isinstance(table, PredictionTable)
        return table

    def close(self) -> None:
        """Stop the process, also in the middle of an answer."""
        self._process.close()
