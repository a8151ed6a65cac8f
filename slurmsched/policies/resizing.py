"""The number of GPUs of jobs that can run on several numbers: what is free, divided by one of three rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.ties import in_ms, in_points
from ..errors import ConfigError
from .size_choice import POLLUX_POWER, SIA_POWER, after_restarts, cheapest, divided, gain


def step_seconds(known: Mapping[int, float], most: int, doubling: float) -> FloatArray:
    """Return the seconds of a step on 0, 1, ... *most* GPUs, in an arbitrary unit; infinite on 0.

    *known* are speeds by number of GPUs. Between two of them the speed grows by a power of the number. Elsewhere it
    grows *doubling*-fold with twice the number, as it does where nothing is known.
    """
    counts = np.log(np.arange(1, most + 1))
    power = np.log2(doubling)
    if not known:
        return np.concatenate([[np.inf], in_points(np.exp(-power * counts))])
    at, speed = np.log(sorted(known)), np.log([known[gpus] for gpus in sorted(known)])
    found = np.interp(counts, at, speed) + power * (np.minimum(counts - at[0], 0.0) + np.maximum(counts - at[-1], 0.0))
    return np.concatenate([[np.inf], in_points(np.exp(-found))])


def sample_worth(noise: float, batch: tuple[int, int], own: int, most: int) -> FloatArray:
    """Return what a sample is worth on 0, 1, ... *most* GPUs, over one in the batch of the job's *own* number.

    *batch* are the samples of a step on that number, and the most of a step on more GPUs; *noise* is the gradient noise
    scale. The more samples a step has, the less each is worth: Pollux' statistical efficiency.
    """
    first, largest = batch
    scales = np.clip(np.arange(most + 1) / own, 1.0, largest / first)
    return np.array([gain(1.0, noise / first, scale) / scale for scale in scales.tolist()])


@dataclass(frozen=True)
class Entrants:
    """Jobs (rows) that have ``least`` GPUs each, or whole nodes, and may have more of those that are divided."""

    step_s: FloatArray  #: seconds of a unit of work on 0, 1, ... GPUs
    left: FloatArray  #: units of work left
    least: IntArray
    cost_s: FloatArray  #: what a restart costs one that gets others; 0 for one that starts anyway
    fair_s: FloatArray  #: seconds of a unit of work on an equal share of all GPUs, as far as the job can use it
    factor: FloatArray  #: part of its speed-up that one keeps that gets others; 1 for one that starts anyway


class SizeDivision(Protocol):
    """A rule about who gets the GPUs that are free."""

    def divided(self, jobs: Entrants, most: IntArray, total: int) -> IntArray:
        """Return the GPUs of each job, ``least`` to *most*, no more than *total*."""

    def losses(self, jobs: Entrants, fewer: IntArray) -> FloatArray:
        """Return what is lost where a job has *fewer* GPUs in place of ``least``, its restart included."""


@dataclass(frozen=True)
class RemainingTimes:
    """Each further GPU goes where it shortens the remaining time most (Optimus)."""

    def divided(self, jobs: Entrants, most: IntArray, total: int) -> IntArray:
        """Return the GPUs of each job."""
        return divided(jobs.step_s, jobs.left, most, total, jobs.least)

    def losses(self, jobs: Entrants, fewer: IntArray) -> FloatArray:
        """Return by how many seconds a job ends later."""
        rows = np.arange(len(fewer))
        return np.asarray(jobs.left * (jobs.step_s[rows, fewer] - jobs.step_s[rows, jobs.least]) + jobs.cost_s)


@dataclass(frozen=True)
class SpeedUps:
    """The GPUs with the best power mean of speed-ups over an equal share of all GPUs (Pollux, Sia)."""

    power: float

    def divided(self, jobs: Entrants, most: IntArray, total: int) -> IntArray:
        """Return the GPUs of each job."""
        free = max(total - int(jobs.least.sum()), 0)
        further = np.arange(min(free, int((most - jobs.least).max(initial=0))) + 1)
        chosen = cheapest(self._costs(jobs, jobs.least[:, None] + further), further, most - jobs.least, free)
        return np.asarray(jobs.least + further[chosen])

    def losses(self, jobs: Entrants, fewer: IntArray) -> FloatArray:
        """Return by how much the sum of the powers of speed-ups, whose least is best, rises."""
        costs = self._costs(jobs, np.stack([jobs.least, fewer], axis=1))
        return np.asarray(costs[:, 1] - costs[:, 0])

    def _costs(self, jobs: Entrants, gpus: IntArray) -> FloatArray:
        """Return the power of the speed-up of each job (row) on each of its *gpus* (column)."""
        at = np.minimum(gpus, jobs.step_s.shape[1] - 1)
        speedup = jobs.fair_s[:, None] / np.take_along_axis(jobs.step_s, at, axis=1)
        after = after_restarts(speedup, gpus != jobs.least[:, None], jobs.factor)
        return in_points(after**self.power)


REMAINING_TIMES = RemainingTimes()

SIZE_DIVISIONS: Mapping[str, SizeDivision] = {
    "optimus": REMAINING_TIMES,
    "pollux": SpeedUps(POLLUX_POWER),
    "sia": SpeedUps(SIA_POWER),
}
"""The rules by name."""


def find_size_division(name: str) -> SizeDivision:
    """Return the rule of that name; ConfigError if there is none."""
    if name not in SIZE_DIVISIONS:
        raise ConfigError(f"division {name!r} is not known; there are: {', '.join(SIZE_DIVISIONS)}")
    return SIZE_DIVISIONS[name]


def divided_at_a_cost(division: SizeDivision, jobs: Entrants, most: IntArray, total: int) -> IntArray:
    """Divide *total* GPUs among jobs that have ``least`` each, at most *most*; more of them cost a restart.

    A job whose end comes no sooner by more than its restart costs keeps what it has, and others get what it would have
    had.
    """
    rows, most = np.arange(len(jobs.left)), np.maximum(most, jobs.least)
    while True:
        gpus = division.divided(jobs, most, total)
        gain_s = (jobs.step_s[rows, jobs.least] - jobs.step_s[rows, gpus]) * jobs.left
        short_s = np.where(gpus > jobs.least, in_ms(jobs.cost_s - gain_s), -1.0)
        if not (short_s >= 0).any():
            return gpus
        most[np.argmax(short_s)] = jobs.least[np.argmax(short_s)]
