"""What jobs that choose their batch report: measured steps and gradient statistics, and the models fitted to them."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import Goodputs
from ...simulator.speeds.performance import Batch, Measurement
from ..scaling.goodput import best_batch
from ..scaling.speed_model import PARAMETERS, fitted

_NEVER = np.zeros(0)


_Steps = dict[tuple[int, int, int], tuple[float, float]]
"""Seconds of computing and of the whole step, by nodes, GPUs and micro-batch."""


class Reports:
    """The reports of all jobs of a workload, by row. A model is fitted when it is needed and there is news.

    Each type of GPU has its own model. One on which a job only tried a step on one GPU has that of the type with most
    reports, with computing longer or shorter by the same factor as that step: the network is taken to be the same.
    """

    def __init__(self, limits: IntArray, node_type: IntArray) -> None:
        count, kinds = len(limits), int(node_type.max(initial=0)) + 1
        self._limits, self._node_type = limits, node_type
        self._steps: list[list[_Steps]] = [[{} for _ in range(kinds)] for _ in range(count)]
        self._speed = np.ones((count, kinds, len(PARAMETERS)))
        self._sqr, self._var = np.ones(count), np.ones(count)
        self._news = np.zeros(count, dtype=np.bool_)
        self.known = np.zeros(count, dtype=np.bool_)
        self.most_gpus = np.zeros(count, dtype=np.int64)  #: on which each was measured

    def add(self, row: int, node_gpus: IntArray, batch: Batch, measured: Measurement) -> None:
        """Add the report of a job with *batch* on GPUs of one type on each node."""
        self._sqr[row], self._var[row] = measured.grad_sqr, measured.grad_var
        gpus, kind = int(node_gpus.sum()), int(self._node_type[np.argmax(node_gpus > 0)])
        key = int(np.count_nonzero(node_gpus)), gpus, batch.micro
        if key in self._steps[row][kind]:
            return
        self._steps[row][kind][key] = measured.step_s - measured.sync_s, measured.step_s
        self.most_gpus[row] = max(self.most_gpus[row], gpus)
        self.known[row] = self._news[row] = True

    def best(self, row: int, node_gpus: IntArray) -> Batch:
        """Return the batch with the best goodput on GPUs of one type on each node."""
        self._fit(np.array([row]))
        gpus, kind = int(node_gpus.sum()), int(self._node_type[np.argmax(node_gpus > 0)])
        speed, limits = self._speed[row, kind], self._limits[row]
        nodes = int(np.count_nonzero(node_gpus))
        _, micro, accumulated = best_batch(speed, self._sqr[row], self._var[row], limits, nodes, gpus)
        return Batch(min(micro, int(limits[1]) // (gpus * (accumulated + 1))), accumulated)

    def of(self, rows: IntArray) -> Goodputs:
        """Return the models of *rows*."""
        self._fit(rows)
        statistics = self._sqr[rows], self._var[rows]
        return Goodputs(self.known[rows], self._speed[rows], *statistics, self._limits[rows], self._node_type)

    def _fit(self, rows: IntArray) -> None:
        for row in rows[self._news[rows]].tolist():
            of_type = self._steps[row]
            most = max(of_type, key=len)
            known = _fitted(most)
            for kind, steps in enumerate(of_type):
                tried = next((key for key in steps if key in most), None)
                if steps is most or any(gpus > 1 for _, gpus, _ in steps) or tried is None:
                    self._speed[row, kind] = known if steps is most or not steps else _fitted(steps)
                else:
                    longer = steps[tried][0] / most[tried][0]
                    self._speed[row, kind] = known * np.array([longer, longer, 1, 1, 1, 1, 1])
            self._news[row] = False


def _fitted(steps: _Steps) -> FloatArray:
    nodes, gpus, micro = np.array(list(steps)).T
    compute_s, step_s = np.array(list(steps.values())).T
    return fitted(nodes, gpus, micro, compute_s, step_s, _NEVER)
