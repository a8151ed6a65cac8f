"""Measured applications: step times by placement, and gradient statistics and progress by epoch and batch (Pollux).

A directory has three files, and one more where there are several types of GPUs; ``docs/training.md`` describes them.
Step times between measured ones are linear.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.nodes import NodeTable
from ...cluster.text.plural import count
from ...cluster.training import LossCurves
from ...errors import ConfigError, MissingExtra
from ..traces.file import TraceFile
from ..workload.workload import Workload
from .performance import Batch, EndRule, JobResources, Measurement

STEP_TIMES, VALIDATION, LIMITS = "pollux_step_times.csv", "pollux_validation.csv", "pollux_vectors.json"
GPU_TYPES = "pollux_gpu_types.csv"
MOST_NODES = 16  #: that step times were measured up to; more count as so many
RESTART_S = 30.0
ROUND_S = 60.0

Placement = tuple[int, ...]
"""The GPUs on each node that a job has, round its ring of nodes."""


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
        self,
        name: str,
        limits: Limits,
        steps: list[dict[str, str]],
        validation: list[dict[str, str]],
        speeds: Mapping[str, float],
    ) -> None:
        self.name, self.limits, self._speeds = name, limits, speeds
        self._placements = _by_placement(steps)
        self._points, self._averaged = _points(steps), any(row["kind"] != "placement" for row in steps)
        step_s, sync_s = self._points[:, 3:].T
        computes = np.isfinite(step_s) & (step_s > 0) & (sync_s >= 0) & (sync_s <= step_s)
        if not (len(computes) and computes.all()):
            raise ValueError(f"{STEP_TIMES}: {name} has no steps, or one of no time or less than its communication")
        self.measured_gpus = int(self._points[:, 1].max())  #: the largest size with step times
        self._seconds: dict[tuple[Placement, int], tuple[float, float]] = {}
        self._rates: dict[tuple[Placement, Batch, float], FloatArray] = {}
        self.batches = np.array(sorted({int(row["batch_size"]) for row in validation}))
        cells = {(int(row["batch_size"]), int(row["epoch"])): row for row in validation}
        epochs = range(1, limits.epochs + 1)
        for batch, epoch in product(self.batches.tolist(), epochs):
            if (batch, epoch) not in cells:
                raise ValueError(f"{VALIDATION}: {name} lacks epoch {epoch} of {limits.epochs} with a batch of {batch}")

        def column(name: str) -> FloatArray:
            return np.array([[float(cells[batch, epoch][name]) for epoch in epochs] for batch in self.batches.tolist()])

        self.until = column("progress").min(axis=0)
        self._iteration, self._sqr, self._var = column("iteration"), column("grad_sqr"), column("grad_var")
        self._metric = column("metric")

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

        A placement that was not measured lies between the means of those that were, by nodes, GPUs and micro-batch.
        """
        ring = min(placement[at:] + placement[:at] for at in range(len(placement)))
        if (ring, micro) not in self._seconds:
            self._seconds[ring, micro] = self._between_sizes(ring, micro) or self._between_placements(ring, micro)
        step_s, sync_s = self._seconds[ring, micro]
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

    def _between_sizes(self, ring: Placement, micro: int) -> tuple[float, float] | None:
        if ring not in self._placements:
            return None
        sizes, seconds = self._placements[ring]
        return float(np.interp(micro, sizes, seconds[:, 0])), float(np.interp(micro, sizes, seconds[:, 1]))

    def _between_placements(self, ring: Placement, micro: int) -> tuple[float, float]:
        nodes, gpus = min(len(ring), MOST_NODES), sum(ring)
        if not self._averaged:
            raise self._not_measured(ring)
        # Measured sizes form a grid, where several simplices hold a point: which is found depends on the one before.
        step_s, sync_s = map(float, self._interpolated((nodes, gpus, micro)))
        if not math.isnan(step_s):
            return step_s, sync_s
        sizes = np.arange(1, self.limits.most_local + 1)
        found = self._interpolated(np.stack(np.broadcast_arrays(nodes, gpus, sizes), axis=1))
        inside = np.isfinite(found[:, 0])
        if not inside.any():
            raise self._not_measured(ring)
        nearest = found[inside][np.argmin(np.abs(sizes[inside] - micro))]
        return float(nearest[0]), float(nearest[1])

    def _not_measured(self, ring: Placement) -> ConfigError:
        most = int((self._points[:, 1] / self._points[:, 0]).max())
        wanted = f"{sum(ring)} GPUs on {count(len(ring), 'node')}"
        return ConfigError(f"application {self.name}: no step times for {wanted}; measured were up to {most} per node")

    @cached_property
    def _interpolated(self) -> Callable[..., FloatArray]:
        if find_spec("scipy") is None:
            raise MissingExtra("step times of placements that were not measured need scipy", "sim")
        from scipy.interpolate import LinearNDInterpolator

        made: Callable[..., FloatArray] = LinearNDInterpolator(self._points[:, :3], self._points[:, 3:])
        return made


def _by_placement(steps: list[dict[str, str]]) -> dict[Placement, tuple[FloatArray, FloatArray]]:
    rows: dict[Placement, list[tuple[float, float, float]]] = defaultdict(list)
    for row in steps:
        if row["kind"] == "placement":
            place = tuple(map(int, row["placement"]))
            rows[place].append((float(row["local_bsz"]), float(row["step_s"]), float(row["sync_s"])))
    sheets = {place: np.array(sorted(cells)) for place, cells in rows.items()}
    return {place: (sheet[:, 0], sheet[:, 1:]) for place, sheet in sheets.items()}


def _points(steps: list[dict[str, str]]) -> FloatArray:
    """Return nodes, GPUs, micro-batch, step and communication seconds: means of placements, then averaged runs."""
    columns = "num_nodes", "num_gpus", "local_bsz", "step_s", "sync_s"
    rows = np.array([[float(row[name]) for name in columns] for row in steps]).reshape(-1, 5)
    placed = np.array([row["kind"] == "placement" for row in steps], dtype=np.bool_)
    at, group, size = np.unique(rows[placed, :3], axis=0, return_inverse=True, return_counts=True)
    means = [np.bincount(group.ravel(), seconds) / size for seconds in rows[placed, 3:].T]
    return np.concatenate([np.column_stack([at, *means]), rows[~placed]])


@cache
def read_applications(directory: str) -> dict[str, Application]:
    """Read the applications of a directory; ConfigError names the file, and what is wrong with it."""
    folder = Path(directory)
    steps, validation = (_by_application(folder / name) for name in (STEP_TIMES, VALIDATION))
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
    types = _by_application(folder / GPU_TYPES) if (folder / GPU_TYPES).exists() else {}
    try:
        speeds = {name: {row["gpu_type"]: float(row["speed"]) for row in rows} for name, rows in types.items()}
        if any(not 0 < speed < math.inf for row in speeds.values() for speed in row.values()):
            raise ValueError(f"{GPU_TYPES}: a speed is a number above 0")
        return {
            name: Application(name, one, steps[name], validation[name], speeds.get(name, {}))
            for name, one in limits.items()
        }
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"reading applications: {folder}: {type(error).__name__}: {error}") from error


def _limits(facts: dict[str, Any]) -> Limits:
    names = "init_batch_size", "max_batch_size", "min_local_bsz", "max_local_bsz", "max_epochs"
    limits = Limits(*(int(facts[name]) for name in names))
    if not (1 <= limits.initial <= limits.most and 1 <= limits.least_local <= limits.most_local and limits.epochs >= 1):
        raise ValueError(f"{facts} are no bounds: all are at least 1, and no least is above its most")
    return limits


def _by_application(path: Path) -> dict[str, list[dict[str, str]]]:
    """Read the rows of a file, or of its compressed form, by application."""
    packed = path.with_name(f"{path.name}.gz")
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    with TraceFile(packed if packed.exists() else path).text() as text:
        lines = csv.reader(text)
        names = next(lines, [])
        for line in lines:  # DictReader takes twice as long
            row = dict(zip(names, line, strict=False))
            rows[row.get("application", "")].append(row)
    return rows


class ApplicationJobs:
    """The true speed of jobs of measured applications (``Performance``).

    A job on GPUs of several types is as fast as on the slowest. What is said of it alone is for the fastest type.
    """

    end_rule = EndRule.SECOND

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
