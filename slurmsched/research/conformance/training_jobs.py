"""Jobs that train, for the trials of scalings: random views, and a day of them at speeds of a formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.training import (
    Allocations,
    CpuNeeds,
    Goodputs,
    LossCurves,
    StepTimes,
    TrainingJobs,
    TrainingView,
    TypeSpeeds,
)
from ...policies.registry import Part
from ...simulator.speeds.performance import Batch, EndRule, FixedBatch, JobResources, Measurement
from ...simulator.workload.workload import Workload
from ..training.feasibility import wrong_amounts
from .random_views import nodes

Random = np.random.Generator
SIZE = 4
_LIMITS = (32, 1024, 8, 256)  #: initial and largest batch, least and most samples per GPU
_ROUNDS = 6


class ScalingRun(NamedTuple):
    """What a scaling returned in rounds in which nothing happens but what it does itself."""

    first: Allocations
    restless: IntArray  #: rows of jobs that had GPUs in every round, and in each other ones than before


def training_view(random: Random, count: int) -> TrainingView:
    """Return a view of so many jobs on nodes of four GPUs, where some hold GPUs, with everything known of them."""
    room = nodes([SIZE] * int(random.integers(1, 6)))
    held, free = np.zeros((count, len(room)), np.int64), room.gpus.copy()
    for row in np.flatnonzero(random.random(count) < 0.5).tolist():
        node = int(random.integers(len(room)))
        held[row, node] = random.integers(0, free[node] + 1)
        free[node] -= held[row, node]
    total = int(room.gpus.sum())
    gpus = np.minimum(1 << random.integers(0, 5, count), total)
    counts, ones, rows = np.arange(total + 1), np.ones(count), np.arange(count)
    work_s, left = random.uniform(0.1, 10.0, count), random.uniform(1.0, 1e5, count)
    jobs = TrainingJobs(
        job_id=1 + rows,
        submit_s=np.sort(random.uniform(0.0, 1e4, count)),
        application=Labels.of(["net"] * count),
        gpus=gpus,
        batch=np.full(count, 64),
        most_gpus=gpus,
        weight=ones,
        done=np.zeros(count),
        left=left,
        served_gpu_s=random.uniform(0.0, 1e5, count),
        ran_s=random.uniform(0.0, 1e5, count),
        restarts=random.integers(0, 4, count),
        held=held,
        memo=np.full((count, 0), np.nan),
    )
    with np.errstate(divide="ignore"):
        steps = StepTimes(work_s[:, None] / counts + 0.01 * counts)
    speed = np.stack([work_s / 10, work_s / 100, *([work_s / 50] * 4), ones], axis=1)[:, None]
    kinds = np.arange(len(room)) % 2
    iterations = np.multiply.outer(ones, [10.0, 20.0, 30.0])
    return TrainingView(
        2e4,
        60.0,
        30.0,
        jobs,
        room,
        step_times=steps,
        curves=LossCurves(iterations, 1 / iterations, 1 / (left + 30.0)),
        goodputs=Goodputs(random.random(count) < 0.7, speed, ones, work_s, limits_of(count), 0 * kinds),
        type_speeds=TypeSpeeds(("a", "b"), kinds, 1 / np.stack([work_s, 2 * work_s], axis=1), rows, _alone(count, 2)),
        cpu_needs=CpuNeeds(2.0 + ones, np.full(count, 2_000.0), 1.0 + work_s / 10, work_s),
    )


def limits_of(count: int) -> IntArray:
    """Return the same bounds of the batch for so many jobs."""
    return np.broadcast_to(np.array(_LIMITS, np.int64), (count, 4)).copy()


def _alone(kinds: int, types: int) -> FloatArray:
    return np.zeros((kinds, kinds, types))


def scale(part: Part[Any], view: TrainingView) -> ScalingRun:
    """Let a scaling decide for some rounds, in which each job holds what it was given and makes no progress."""
    first = part(view)
    now, restless, changed = first, np.ones(len(view.jobs), np.bool_), np.ones(len(view.jobs), np.bool_)
    for _ in range(_ROUNDS):
        memo = view.jobs.memo if now.memo is None else now.memo
        restarts = view.jobs.restarts + (changed & view.jobs.held.any(axis=1))
        jobs = replace(view.jobs, held=now.gpus, memo=memo, restarts=restarts)
        view = replace(view, now_s=view.now_s + view.round_s, jobs=jobs, plan=now.plan)
        now = part(view)
        changed = (now.gpus != jobs.held).any(axis=1)
        restless &= changed & now.gpus.any(axis=1)
    return ScalingRun(first, np.flatnonzero(restless))


def wrong_allocations(part: Part[Any], view: TrainingView, result: ScalingRun) -> str:
    """Say what is wrong with allocations; empty if nothing is."""
    first = result.first
    if problem := wrong_amounts(first, len(view.jobs), view.nodes):
        return f"gives {problem}"
    if (rows := np.flatnonzero(first.gpus.sum(axis=1) > view.jobs.most_gpus)).size:
        return f"job {view.jobs.job_id[rows[0]]} has more GPUs than it can use"
    if len(result.restless) and not getattr(part, "turns", False):
        job = view.jobs.job_id[result.restless[0]]
        return f"job {job} has other GPUs in each of {_ROUNDS} rounds, though nothing happens: each change restarts it"
    return ""


class FormulaJobs(FixedBatch):
    """Speeds by a formula (``Performance``): a job is as fast as it has GPUs of those its owner asks for."""

    end_rule = EndRule.EXACT

    def __init__(self, jobs: Workload, node_type: IntArray) -> None:
        count = len(jobs)
        self._gpus, self.node_type, self.limits = jobs.gpus, node_type, limits_of(count)
        self.epochs, self.most_gpus, self.runtime_s = np.ones(count, np.int64), jobs.gpus, jobs.runtime_s
        self.until = self.left = jobs.runtime_s[:, None]
        self.measured_gpus = np.full(count, np.iinfo(np.int64).max)  # a formula holds for any number

    def rates(self, row: int, has: JobResources) -> FloatArray:
        """Return the seconds of its run on the GPUs asked for that it does in a second."""
        gpus = float(has.node_gpus.sum())
        if has.batch is not None:
            step_s = (0.1 + 0.001 * has.batch.micro) * (1 + has.batch.accumulated)
            gpus *= has.batch.micro * (1 + has.batch.accumulated) / step_s / 320.0
        return np.array([gpus / self._gpus[row]])

    def measured(self, row: int, node_gpus: IntArray, batch: Batch, epoch: int) -> Measurement:
        """Return a step that synchronises for a fiftieth of a second."""
        sync_s = 0.02 * (node_gpus.sum() > 1)
        return Measurement(0.1 + 0.001 * batch.micro + sync_s, sync_s, 1.0, 100.0)

    def first_batch(self, row: int, gpus: int) -> tuple[Batch, bool]:
        """Return the initial batch, or the least on so many GPUs."""
        return Batch(max(_LIMITS[0] // gpus, _LIMITS[2]), 0), True

    def step_times(self, row: int, most: int) -> FloatArray:
        """Return the seconds of one iteration on 0, 1, ... *most* GPUs."""
        with np.errstate(divide="ignore"):
            return np.asarray(self._gpus[row] / np.arange(most + 1))

    def curves(self, rows: IntArray, epoch: IntArray) -> LossCurves:
        """Return no reports."""
        none = np.full((len(rows), 1), np.nan)
        return LossCurves(none, none, np.zeros(len(rows)))

    def type_speeds(self, rows: IntArray) -> TypeSpeeds:
        """Return equal speeds on one type."""
        return TypeSpeeds(("gpu",), self.node_type, np.ones((len(rows), 1)), 0 * rows, _alone(1, 1))

    def cpu_needs(self, rows: IntArray) -> CpuNeeds:
        """Return no gain by CPUs and memory."""
        ones = np.ones(len(rows))
        return CpuNeeds(ones, ones, ones, ones)
