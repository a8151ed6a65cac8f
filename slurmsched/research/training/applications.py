"""Measured applications: step times by placement, and gradient statistics and progress by epoch and batch (Pollux).

A directory has three files, and one more where there are several types of GPUs (``docs/results/training.md``).
Step times between measured ones are linear.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.nodes import NodeTable
from ...cluster.training import LossCurves
from ...errors import ConfigError
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.speeds.performance import Batch, EndRule, JobResources, Measurement
from ...simulator.traces import cells
from ...simulator.traces.delimited_text import DelimitedRecords
from ...simulator.traces.file import TraceFile
from ...simulator.workload.workload import Workload
from .step_times import STEP_COLUMNS, STEP_TIMES, MeasuredSteps, Placement

VALIDATION, LIMITS, GPU_TYPES = "pollux_validation.csv", "pollux_vectors.json", "pollux_gpu_types.csv"
RESTART_S = 30.0
ROUND_S = 60.0

_EPOCH_COLUMNS = ("progress", "iteration", "metric", "grad_sqr", "grad_var")
_VALIDATION_COLUMNS: dict[str, cells.Cell] = {
    "application": cells.text,
    "batch_size": cells.whole,
    "epoch": cells.whole,
}
_VALIDATION_COLUMNS |= dict.fromkeys(_EPOCH_COLUMNS, cells.number)
_TYPE_COLUMNS: dict[str, cells.Cell] = {"application": cells.text, "gpu_type": cells.text, "speed": cells.positive}

Columns = Mapping[str, Any]
"""Columns of a file by name."""


@dataclass(frozen=True)
class Limits:
    """What bounds the batch and the length of an application."""

    initial: int
    most: int
    least_local: int
    most_local: int
    epochs: int

    @property
    def scales(self) -> bool:
        """False if its largest batch fits on one GPU: then it stays on one, with that batch."""
        return self.most_local < self.most

    def split(self, batch: int, gpus: int, *, measured: bool = False) -> Batch:
        """Return how *gpus* GPUs do a step of *batch* samples, rounded up to equal micro-batches.

        The variance of the gradient is measured between GPUs or between micro-batches. One GPU therefore has two of
        them if the batch is not the initial one, or has to be *measured*.
        """
        local = -(-batch // gpus)
        accumulated = -(-local // self.most_local) - 1
        if gpus == 1 and (measured or batch > self.initial):
            accumulated = max(accumulated, 1)
        micro = -(-local // (accumulated + 1))
        return Batch(min(micro, self.most // (gpus * (accumulated + 1))), accumulated)


class Application:
    """One measured application."""

    def __init__(
        self, name: str, limits: Limits, steps: Columns, validation: Columns, speeds: Mapping[str, float]
    ) -> None:
        """Take its rows of each file; ValueError for what makes no sense."""
        self.name, self.limits, self._speeds = name, limits, speeds
        self._steps = MeasuredSteps(name, steps, limits.most_local)
        self.measured_gpus = self._steps.most_gpus  #: the largest size with step times
        self._rates: dict[tuple[Placement, Batch, float], FloatArray] = {}
        self.batches = np.unique(validation["batch_size"])
        rows = {
            cell: row
            for row, cell in enumerate(
                zip(validation["batch_size"].tolist(), validation["epoch"].tolist(), strict=True)
            )
        }
        grid = list(product(self.batches.tolist(), range(1, limits.epochs + 1)))
        for batch, epoch in grid:
            if (batch, epoch) not in rows:
                raise ValueError(f"{VALIDATION}: {name} lacks epoch {epoch} of {limits.epochs} with a batch of {batch}")
        order = np.array([rows[cell] for cell in grid], np.int64).reshape(len(self.batches), limits.epochs)
        progress, self._iteration, self._metric, self._sqr, self._var = (
            validation[column][order] for column in _EPOCH_COLUMNS
        )
        self.until = progress.min(axis=0)

    def speed(self, gpu_type: str) -> float:
        """Return the speed of computing on a type of GPUs, over that on the measured ones; ConfigError if unknown."""
        if not self._speeds:
            return 1.0
        if gpu_type not in self._speeds:
            known = ", ".join(sorted(self._speeds))
            raise ConfigError(f"application {self.name}: no speed on GPUs of type {gpu_type!r}; there are: {known}")
        return self._speeds[gpu_type]

    def step_time(self, placement: Placement, micro: int, speed: float = 1.0) -> tuple[float, float]:
        """Return the seconds of a step, and those of them spent on communication, on GPUs of a *speed*.

        ConfigError where none were measured around *placement*.
        """
        step_s, sync_s = self._steps.at(placement, micro)
        return (step_s, sync_s) if speed == 1 else ((step_s - sync_s) / speed + sync_s, sync_s)

    def statistics(self, batch: int) -> tuple[FloatArray, FloatArray]:
        """Return the squared norm and the variance of the gradient in each epoch, linear between measured batches."""
        return self._between(self._sqr, batch), self._between(self._var, batch)

    def gain(self, batch: int) -> FloatArray:
        """Return the iterations of the initial batch that one of *batch* is worth, in each epoch."""
        sqr, var = self.statistics(batch)
        gain: FloatArray = (var + sqr) / (var / (batch / self.limits.initial) + sqr)
        return gain

    def rates(self, placement: Placement, batch: Batch, speed: float = 1.0) -> FloatArray:
        """Return the goodput in each epoch on GPUs of a *speed*: iterations of the initial batch per second."""
        key = placement, batch, speed
        if key not in self._rates:
            step_s, sync_s = self.step_time(placement, batch.micro, speed)
            total = sum(placement) * batch.micro * (batch.accumulated + 1)
            self._rates[key] = self.gain(total) / (step_s + batch.accumulated * (step_s - sync_s))
        return self._rates[key]

    def left(self, batch: int) -> FloatArray:
        """Return the iterations of *batch* that are left after each epoch, at least 1."""
        done = self._between(self._iteration, batch)
        left: FloatArray = np.maximum(done[-1] - done, 1.0)
        return left

    def losses(self, batch: int) -> tuple[FloatArray, FloatArray]:
        """Return the iterations of *batch* at the end of each epoch, and the loss there.

        That is the metric if this falls, else what the metric lacks of 1, or of 100 if it is in percent.
        """
        metric = self._between(self._metric, batch)
        whole = 1.0 if self._metric.max() <= 1 else 100.0
        return self._between(self._iteration, batch), metric if metric[-1] < metric[0] else whole - metric

    def _between(self, rows: FloatArray, batch: int) -> FloatArray:
        above = int(np.clip(np.searchsorted(self.batches, batch), 1, len(self.batches) - 1))
        low, high = self.batches[above - 1 : above + 1].tolist()
        weight = min(max((batch - low) / (high - low), 0.0), 1.0)
        between: FloatArray = (1 - weight) * rows[above - 1] + weight * rows[above]
        return between


@cache
def read_applications(directory: str) -> dict[str, Application]:
    """Read the applications of a directory; ConfigError and TraceError name the file, and what is wrong with it."""
    folder = Path(directory)
    steps, validation = (
        _by_application(folder / STEP_TIMES, STEP_COLUMNS),
        _by_application(folder / VALIDATION, _VALIDATION_COLUMNS),
    )
    types = _by_application(folder / GPU_TYPES, _TYPE_COLUMNS) if (folder / GPU_TYPES).exists() else {}
    path = folder / LIMITS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["applications"]
        limits = {name: _limits(facts) for name, facts in found.items()}
    except OSError as error:
        raise ConfigError(f"reading applications: {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"reading applications: {path}: accepted are applications, each with init_batch_size, max_batch_size, "
            f"min_local_bsz, max_local_bsz, max_epochs; {type(error).__name__}: {error}"
        ) from error
    for file, there in ((STEP_TIMES, steps), (VALIDATION, validation)):
        if missing := [name for name in limits if name not in there]:
            raise ConfigError(f"reading applications: {folder}: {file}: {missing[0]} has no rows")
    try:
        return {
            name: Application(name, one, steps[name], validation[name], _speeds(types.get(name)))
            for name, one in limits.items()
        }
    except ValueError as error:
        raise ConfigError(f"reading applications: {folder}: {error}") from error


def _speeds(columns: Columns | None) -> dict[str, float]:
    return {} if columns is None else dict(zip(columns["gpu_type"], columns["speed"].tolist(), strict=True))


def _limits(facts: dict[str, Any]) -> Limits:
    names = "init_batch_size", "max_batch_size", "min_local_bsz", "max_local_bsz", "max_epochs"
    limits = Limits(*(int(facts[name]) for name in names))
    if not (1 <= limits.initial <= limits.most and 1 <= limits.least_local <= limits.most_local and limits.epochs >= 1):
        raise ValueError(f"{facts} are no bounds: all are at least 1, and no least is above its most")
    return limits


def _by_application(path: Path, columns: Mapping[str, cells.Cell]) -> dict[str, Columns]:
    """Read the rows of a file, or of its compressed form, by application."""
    packed = path.with_name(f"{path.name}.gz")
    found = DelimitedRecords(TraceFile(packed if packed.exists() else path)).read(columns)
    application = found["application"]

    def of(rows: BoolArray) -> Columns:
        return {name: cell.take(rows) if isinstance(cell, Labels) else cell[rows] for name, cell in found.items()}

    return {name: of(application.codes == code) for code, name in enumerate(application.names)}


class ApplicationJobs:
    """The true speed of jobs of measured applications (``Performance``).

    A job on GPUs of several types is as fast as on the slowest. What is said of it alone is for the fastest type.
    """

    end_rule = EndRule.SECOND
    defaults: ClassVar[Mapping[str, float]] = MappingProxyType({"restart_s": RESTART_S, "beat_s": ROUND_S})

    @classmethod
    def read(cls, directory: str, jobs: Workload, fleet: ClusterSpec) -> ApplicationJobs:
        """Read the applications of *jobs*; ConfigError for files that cannot be read, and jobs they do not describe."""
        return cls(jobs, read_applications(directory), fleet.size, fleet.nodes)

    def __init__(
        self, jobs: Workload, applications: dict[str, Application], node_gpus: int, nodes: NodeTable | None = None
    ) -> None:
        used = [] if nodes is None else [name for name, gpus in zip(nodes.gpu_type, nodes.gpus, strict=True) if gpus]
        types = tuple(dict.fromkeys(used)) or ("",)
        self.node_type = np.zeros(0 if nodes is None else len(nodes), np.int64)
        if nodes is not None:
            self.node_type = np.array([types.index(name) if name in types else 0 for name in nodes.gpu_type])
        self._apps = [applications[name] for name in _known(jobs, applications)]
        speed = {app.name: [app.speed(name) for name in types] for app in self._apps}
        self._speed = np.array([speed[app.name] for app in self._apps])
        self._own_batch, self._node_gpus = jobs.batch.tolist(), node_gpus
        limits = [app.limits for app in self._apps]
        self.epochs = np.array([one.epochs for one in limits], dtype=np.int64)
        most = int(self.epochs.max(initial=0))

        def padded(rows: Iterable[FloatArray]) -> FloatArray:
            return np.array([np.pad(row, (0, most - len(row)), "edge") for row in rows])

        self.until = padded(app.until for app in self._apps)
        self.left = padded(app.left(batch) for app, batch in zip(self._apps, self._own_batch, strict=True))
        bounds = [(one.initial, one.most, one.least_local, one.most_local) for one in limits]
        self.limits = np.array(bounds, dtype=np.int64).reshape(-1, 4)
        scales = np.array([one.scales for one in limits], dtype=np.bool_)
        for app, job_id, batch in zip(self._apps, jobs.job_id.tolist(), self._own_batch, strict=True):
            if not 1 <= batch <= app.limits.most:
                raise ConfigError(
                    f"job {job_id}: {app.name} has a batch of 1 to {app.limits.most} samples, not {batch}"
                )
        self.measured_gpus = np.array([app.measured_gpus for app in self._apps], dtype=np.int64)
        self.most_gpus = np.where(scales, np.minimum(jobs.batch // self.limits[:, 2], self.measured_gpus), 1)
        self.runtime_s = np.array([self._alone_s(row, gpus) for row, gpus in enumerate(jobs.gpus.tolist())])

    def rates(self, row: int, has: JobResources) -> FloatArray:
        """Return the goodput in each epoch."""
        placement = _placement(has.node_gpus)
        app, speed = self._apps[row], self._slowest(row, has.node_gpus)
        return app.rates(placement, has.batch or app.limits.split(self._own_batch[row], sum(placement)), speed)

    def measured(self, row: int, node_gpus: IntArray, batch: Batch, epoch: int) -> Measurement:
        """Return what a job with its own batch measures in an epoch."""
        app = self._apps[row]
        placement = _placement(node_gpus)
        sqr, var = app.statistics(sum(placement) * batch.micro * (batch.accumulated + 1))
        seconds = app.step_time(placement, batch.micro, self._slowest(row, node_gpus))
        return Measurement(*seconds, float(sqr[epoch]), float(var[epoch]))

    def first_batch(self, row: int, gpus: int) -> tuple[Batch, bool]:
        """Return the batch that a job begins with on so many GPUs, and whether it will choose others."""
        limits = self._apps[row].limits
        batch = max(limits.initial, limits.least_local * gpus) if limits.scales else limits.most
        return limits.split(batch, gpus), limits.scales

    def step_times(self, row: int, most: int) -> FloatArray:
        """Return the seconds of a step on 0, 1, ... *most* GPUs of as few nodes as can be."""
        return np.array([math.inf, *(self._packed_s(row, gpus) for gpus in range(1, most + 1))])

    def curves(self, rows: IntArray, epoch: IntArray) -> LossCurves:
        """Return what jobs have reported that are in an *epoch*, from 0; the target is their loss at the end."""
        iterations, loss = np.full((2, len(rows), self.until.shape[1]), np.nan)
        target = np.zeros(len(rows))
        for at, (row, ended) in enumerate(zip(rows.tolist(), epoch.tolist(), strict=True)):
            curve, losses = self._apps[row].losses(self._own_batch[row])
            iterations[at, :ended], loss[at, :ended], target[at] = curve[:ended], losses[:ended], losses[-1]
        return LossCurves(iterations, loss, target)

    def _slowest(self, row: int, node_gpus: IntArray) -> float:
        if not len(self.node_type):
            return float(self._speed[row, 0])
        return float(self._speed[row, self.node_type[node_gpus > 0]].min())

    def _packed_s(self, row: int, gpus: int) -> float:
        app = self._apps[row]
        how = app.limits.split(self._own_batch[row], gpus, measured=True)
        step_s, sync_s = app.step_time(self._packed(gpus), how.micro, float(self._speed[row].max()))
        return step_s + how.accumulated * (step_s - sync_s)

    def _packed(self, gpus: int) -> Placement:
        whole, rest = divmod(gpus, self._node_gpus)
        return (self._node_gpus,) * whole + ((rest,) if rest else ())

    def _alone_s(self, row: int, gpus: int) -> float:
        app = self._apps[row]
        batch = app.limits.split(self._own_batch[row], gpus)
        rates = app.rates(self._packed(gpus), batch, float(self._speed[row].max()))
        return float((np.diff(app.until, prepend=0.0) / rates).sum())


def _placement(node_gpus: IntArray) -> Placement:
    """Return the ring of a job's nodes, which begins with those where it has most GPUs."""
    return tuple(sorted(node_gpus[node_gpus > 0].tolist(), reverse=True))


def _known(jobs: Workload, applications: dict[str, Application]) -> Iterator[str]:
    for name, job_id in zip(jobs.work, jobs.job_id.tolist(), strict=True):
        if name not in applications:
            raise ConfigError(f"job {job_id}: {name!r} is no application; there are: {', '.join(sorted(applications))}")
        yield name
