"""Jobs of a round-based simulation: what they need, what they were promised, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..workload.rewards import steps_of
from ..workload.workload import Workload
from .profiling import Profiling

OVERRUN = 0.1
"""Of its planned runtime, what a job is taken to need still that has run about as long as planned."""


class LeaseRules(NamedTuple):
    """What holds for every policy."""

    tick_s: float = 300.0  #: a best-effort lease; arrivals are seen and GPUs handed out on this beat
    lease_s: float = 1200.0  #: a lease of a job with a deadline
    resume_s: float = 30.0  #: what going on after a stop costs a job on one GPU, and again so much for each doubling


class RuntimeEstimates(NamedTuple):
    """What is forecast of runtimes, in seconds, job by job."""

    median_s: FloatArray
    high_s: FloatArray  #: the upper decile, which plans count on


@dataclass(eq=False)
class LeaseState:
    """All jobs by row, and the present. Policies read; only the rounds write."""

    submit_s: FloatArray
    runtime_s: FloatArray  #: the truth; policies plan by ``planned_s``
    median_s: FloatArray  #: what is forecast of it
    planned_s: FloatArray  #: the runtime that plans count on: the upper decile of the forecast
    least_s: FloatArray  #: what a job still needs at least as far as plans know, however long it has run
    gpus: IntArray
    slo: BoolArray  #: has a deadline
    due_s: FloatArray  #: job x step: when each step's deadline is; infinite where there is no step
    worth: FloatArray  #: job x step: the share of the full reward, 0 where there is no step
    total: int  #: GPUs
    rules: LeaseRules
    ready_s: FloatArray  #: when each job is known and may run, never falling
    lent_gpus: IntArray  #: GPUs that are set apart in each interval of ``lent_s``, the last one for good
    lent_s: float

    now_s: float
    rows: IntArray  #: of jobs that have arrived and not ended
    done_s: FloatArray  #: work done
    owed_s: FloatArray  #: cost of going on that has not been paid yet
    running: BoolArray
    started_s: FloatArray  #: first start, NaN before
    lease_end_s: FloatArray  #: until when a job may keep its GPUs, minus infinity without a lease
    stops: IntArray
    end_s: FloatArray  #: NaN before

    @property
    def capacity(self) -> int:
        """GPUs that there are now."""
        return self.total - int(self.lent_gpus[min(int(self.now_s // self.lent_s), len(self.lent_gpus) - 1)])

    @property
    def left_s(self) -> FloatArray:
        """Seconds that each of ``rows`` still needs as far as plans know."""
        rows = self.rows
        return np.maximum(self.planned_s[rows] - self.done_s[rows], self.least_s[rows]) + self.owed_s[rows]


def world_of(jobs: Workload, capacity: int, rules: LeaseRules, estimates: RuntimeEstimates | None = None) -> LeaseState:
    """Before the first arrival, on *capacity* GPUs. Plans know what is *estimates*, without it the truth.

    With it, a job that has run nearly as long as planned, or longer, is taken to need ``OVERRUN`` of that still. Jobs
    without GPUs are left out by the caller; ValueError where one could never run.
    """
    if len(jobs) and (jobs.gpus.min() < 1 or jobs.gpus.max() > capacity):
        raise ValueError(f"jobs ask for {jobs.gpus.min()} to {jobs.gpus.max()} GPUs: accepted are 1 to {capacity}")
    step_texts = [steps_of(text) for text in jobs.rewards.names]
    steps = max(1, max((len(one) for one in step_texts), default=1))
    within, worth = np.full((len(step_texts), steps), np.inf), np.zeros((len(step_texts), steps))
    for text, one in enumerate(step_texts):
        for step, (after_s, share) in enumerate(one):
            within[text, step], worth[text, step] = after_s, share
    slo = ~jobs.best_effort & np.isfinite(jobs.deadline_s)
    due_s, shares = within[jobs.rewards.codes], worth[jobs.rewards.codes]
    bare = ~np.isfinite(due_s[:, 0])
    due_s[bare, 0], shares[bare, 0] = (jobs.deadline_s - jobs.submit_s)[bare], 1.0
    due_s[~slo], shares[~slo] = np.inf, 0.0
    count = len(jobs)
    return LeaseState(
        submit_s=jobs.submit_s,
        runtime_s=jobs.runtime_s,
        median_s=jobs.runtime_s if estimates is None else estimates.median_s,
        planned_s=jobs.runtime_s if estimates is None else estimates.high_s,
        least_s=np.full(count, 1.0) if estimates is None else np.maximum(1.0, OVERRUN * estimates.high_s),
        gpus=jobs.gpus,
        slo=slo,
        due_s=due_s + jobs.submit_s[:, None],
        worth=shares,
        total=capacity,
        rules=rules,
        ready_s=jobs.submit_s,
        lent_gpus=np.zeros(1, np.int64),
        lent_s=np.inf,
        now_s=0.0,
        rows=np.zeros(0, np.int64),
        done_s=np.zeros(count),
        owed_s=np.zeros(count),
        running=np.zeros(count, np.bool_),
        started_s=np.full(count, np.nan),
        lease_end_s=np.full(count, -np.inf),
        stops=np.zeros(count, np.int64),
        end_s=np.full(count, np.nan),
    )


def profiled(world: LeaseState, how: Profiling) -> LeaseState:
    """*world* with every job profiled first, on GPUs of its own.

    Jobs that end there have ended. The others come when they are known, go on from there at the cost of a stop, and
    have done as much as their share of the GPUs that they ask for lets them.
    """
    widest = int(world.gpus.max(initial=1))
    what = how.profiled(world.submit_s, world.runtime_s, world.gpus, world.total - widest)
    world.started_s[what.ended] = what.begins_s[what.ended]
    world.end_s[what.ended] = what.end_s[what.ended]
    world.done_s = np.where(what.ended, world.runtime_s, what.done_s)
    world.stops[~what.ended] += 1
    world.ready_s, world.lent_gpus, world.lent_s = what.ready_s, what.lent_gpus, how.every_s
    return world
