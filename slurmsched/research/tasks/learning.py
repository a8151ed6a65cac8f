"""What training jobs report of themselves each round, and the load control that lets them end early by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.records.progress import NO_PROGRESS, ProgressTable
from ...cluster.state import View
from ...models.progress.learning_curve import LATE_SHARE, LEAST_POINTS, LearningCurve
from ...policies.contract import STOPPINGS
from ...simulator.setup import LOAD_CONTROLS
from ...simulator.task_outcome import accuracy_at
from ...simulator.workload.workload import Workload

FALL = 4.0  #: of the loss of these workloads, ``1 + 4 exp(-k i)``


class Learning:
    """The learning curves of the jobs of a workload. Nothing of a curve is shown before the job has come so far."""

    def __init__(self, jobs: Workload, table: JobTable, load_control: str) -> None:
        self._jobs, self._part = jobs, STOPPINGS.find(LOAD_CONTROLS[load_control])
        self.stops = load_control != "none"
        self._settles = load_control in ("opt", "mlfs")
        self._curves: dict[int, LearningCurve] = {}
        self._settled = np.zeros(len(jobs), dtype=np.bool_)
        self.table = table
        if self.stops:
            self.table = replace(table, **_rules(load_control, jobs))

    def report(self, rows: IntArray, part: FloatArray) -> None:
        """Take the reports of the running jobs in *rows*, which did so much of their iterations."""
        if not self._settles:
            return
        iterations = np.floor(part * self._jobs.iterations[rows]).astype(np.int64).tolist()
        whole = np.ceil(self._jobs.iterations[rows]).astype(np.int64).tolist()
        losses, accuracies = self._loss(rows, part).tolist(), self._accuracy(rows, part).tolist()
        for row, at, end, loss, accuracy in zip(rows.tolist(), iterations, whole, losses, accuracies, strict=True):
            curve = self._curves.setdefault(row, LearningCurve())
            if at > curve.iteration:
                curve.add(at, loss, accuracy)
                self._settled[row] = curve.settles(end)

    def progress(self, rows: IntArray, part: FloatArray, reports: IntArray) -> ProgressTable:
        """Return what is known of the jobs in *rows*, which did so much of their iterations and reported so often."""
        heard = reports > 0
        rows, at, reports = rows[heard], part[heard], reports[heard]
        if not len(rows):
            return NO_PROGRESS
        known, late = reports >= LEAST_POINTS, at * (1 - LATE_SHARE)
        losses, before = self._loss(rows, at), self._loss(rows, late)
        fall = before - losses
        return ProgressTable(
            self._jobs.job_id[rows],
            np.floor(at * self._jobs.iterations[rows]).astype(np.int64),
            self._accuracy(rows, at),
            np.where(known, fall / before, np.nan),
            np.where(known, fall / np.maximum(1 + FALL - losses, 1e-12), np.nan),
            np.zeros(len(rows), dtype=np.bool_),
            self._settled[rows],
        )

    def may_end(self, view: View) -> BoolArray:
        """Select the running jobs of *view* that the load control lets end."""
        return np.asarray(self._part(view), np.bool_)

    def _loss(self, rows: IntArray, part: FloatArray) -> FloatArray:
        return np.asarray(1 + FALL * np.exp(-self._jobs.loss_rate[rows] * part))

    def _accuracy(self, rows: IntArray, part: FloatArray) -> FloatArray:
        return accuracy_at(self._jobs, rows, part)


def _rules(load_control: str, jobs: Workload) -> dict[str, Any]:
    """Return what the owners of all jobs would have said for this load control."""
    same = np.zeros(len(jobs), dtype=np.int64)
    levels = jobs.accuracy_required.copy()
    if load_control == "mlfs":
        return {"stop": Labels(same, ("opt",)), "busy": Labels(same, ("acc",)), "busy_level": levels}
    return {"stop": Labels(same, (load_control,)), "stop_level": levels}
