"""What jobs that run on several numbers of GPUs have to do yet, and how fast they are on each number. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.jobs import JobTable
from ..cluster.outlook.remaining import MIDDLE, left_s
from ..cluster.speed_texts import read_sizes
from ..cluster.ties import in_points
from ..policies.resizing import sample_worth, step_seconds

GrowingBatch = tuple[float, tuple[int, int], int]


@dataclass
class RemainingWork:
    """What jobs have to do yet, and their speed on each number of GPUs."""

    jobs: JobTable
    runtime_s: FloatArray  #: never NaN
    now_s: float
    doubling: float

    def step_s(self, row: int, most: int) -> FloatArray:
        """Return the seconds of a unit of work on 0, 1, ... *most* GPUs."""
        batch = growing_batch(self.jobs, row)
        speeds = self.jobs.size_speeds[row] if batch is None else self.jobs.sample_speeds[row]
        key = speeds, batch
        if len(self._steps.get(key, ())) <= most:
            step_s = step_seconds(read_sizes(speeds), most, self.doubling)
            self._steps[key] = step_s if batch is None else in_points(step_s / sample_worth(*batch, most))
        return self._steps[key][: most + 1]

    def left(self, row: int) -> float:
        """Return the units of work left; a forecast is that on the number of GPUs that the owner asked for."""
        jobs, gpus = self.jobs, int(self.jobs.gpus[row])
        own = int(jobs.own_gpus[row]) or gpus
        step_s, this_s = self.step_s(row, max(own, gpus)), 0.0
        if np.isfinite(jobs.started_s[row]) and jobs.node_list[row]:
            this_s = max(self.now_s - float(jobs.started_s[row]), 0.0)
        if jobs.iterations[row] > 0 and np.isfinite(jobs.pace_s[row]):
            rest_s = float((jobs.iterations[row] - jobs.done[row]) * jobs.pace_s[row])
            return self._still_s(row, rest_s, this_s, this_s) / float(step_s[gpus])
        done = self._done_before(row, own, max(float(jobs.ran_s[row]) - this_s, 0.0)) + this_s / step_s[gpus]
        own_s = float(step_s[own])
        return self._still_s(row, float(self.runtime_s[row]), done * own_s, this_s) / own_s

    def _still_s(self, row: int, whole_s: float, done_s: float, this_s: float) -> float:
        """Return what a job still needs of *whole_s* on its present GPUs, by the rule for all jobs."""
        until_s = np.array([self.jobs.time_limit_s[row] - this_s])
        return float(left_s(np.array([whole_s]), np.array([done_s]), MIDDLE, until_s)[0])

    def _done_before(self, row: int, own: int, earlier_s: float) -> float:
        """Return the units of work of earlier runs; those on numbers that are not known count as on its *own* one."""
        ran_s = read_sizes(self.jobs.ran_on[row])
        step_s = self.step_s(row, max(own, *ran_s, 0))
        known = sum(seconds / step_s[gpus] for gpus, seconds in ran_s.items())
        return float(known + max(earlier_s - sum(ran_s.values()), 0.0) / step_s[own])

    @cached_property
    def _steps(self) -> dict[tuple[str, GrowingBatch | None], FloatArray]:
        return {}


def growing_batch(jobs: JobTable, row: int) -> GrowingBatch | None:
    """Return what decides by how much more samples in a step help a job: a noise scale, its batches, its own GPUs.

    Return None where it does not say or report that, or where the speeds of its kind on several numbers of GPUs are
    known: runtimes contain it.
    """
    noise, first, largest = float(jobs.noise[row]), int(jobs.batch_least[row]), int(jobs.batch_most[row])
    own = int(jobs.own_gpus[row]) or int(jobs.gpus[row])
    if not (np.isfinite(noise) and first < largest and own > 0) or jobs.size_speeds[row]:
        return None
    return noise, (first, largest), own
