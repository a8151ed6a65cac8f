"""What jobs that choose their batch report: measured steps and gradient statistics, and the models fitted to them."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.training import Goodputs
from ...policies.scaling.goodput import best_batch
from ...policies.scaling.speed_model import PARAMETERS, fitted
from .performance import Batch, Measurement

_NEVER = np.zeros(0)


class Reports:
    """The reports of all jobs of a workload, by row. A model is fitted when it is needed and there is news."""

    def __init__(self, limits: IntArray) -> None:
        count = len(limits)
        self._limits = limits
        self._steps: list[dict[tuple[int, int, int], tuple[float, float]]] = [{} for _ in range(count)]
        self._speed = np.ones((count, len(PARAMETERS)))
        self._sqr, self._var = np.ones(count), np.ones(count)
        self._news = np.zeros(count, dtype=np.bool_)
        self.known = np.zeros(count, dtype=np.bool_)
        self.most_gpus = np.zeros(count, dtype=np.int64)  #: on which each was measured

    def add(self, row: int, nodes: int, gpus: int, batch: Batch, measured: Measurement) -> None:
        """Add the report of a job on *nodes* and *gpus* with *batch*."""
        self._sqr[row], self._var[row] = measured.grad_sqr, measured.grad_var
        key = nodes, gpus, batch.micro
        if key in self._steps[row]:
            return
        self._steps[row][key] = measured.step_s - measured.sync_s, measured.step_s
        self.most_gpus[row] = max(self.most_gpus[row], gpus)
        self.known[row] = self._news[row] = True

    def best(self, row: int, nodes: int, gpus: int) -> Batch:
        """Return the batch with the best goodput on *nodes* and *gpus*."""
        self._fit(np.array([row]))
        speed, limits = self._speed[row], self._limits[row]
        _, micro, accumulated = best_batch(speed, self._sqr[row], self._var[row], limits, nodes, gpus)
        return Batch(min(micro, int(limits[1]) // (gpus * (accumulated + 1))), accumulated)

    def of(self, rows: IntArray) -> Goodputs:
        """Return the models of *rows*."""
        self._fit(rows)
        return Goodputs(self.known[rows], self._speed[rows], self._sqr[rows], self._var[rows], self._limits[rows])

    def _fit(self, rows: IntArray) -> None:
        for row in rows[self._news[rows]].tolist():
            nodes, gpus, micro = np.array(list(self._steps[row])).T
            compute_s, step_s = np.array(list(self._steps[row].values())).T
            self._speed[row] = fitted(nodes, gpus, micro, compute_s, step_s, _NEVER)
            self._news[row] = False
