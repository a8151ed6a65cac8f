"""Jobs of a round-based simulation: what they need, what they were promised, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..traces.rewards import steps_of
from ..workload import Workload

OVERRUN = 0.1
"""Of its planned runtime, what a job is taken to need still that has run about as long as planned."""


class Rules(NamedTuple):
    """What holds for every policy."""

    tick_s: float = 300.0  #: a best-effort lease; arrivals are seen and GPUs handed out on this beat
    lease_s: float = 1200.0  #: a lease of a job with a deadline
    resume_s: float = 30.0  #: what going on after a stop costs a job on one GPU, and again so much for each doubling


@dataclass(eq=False)
class World:
    """All jobs by row, and the present. Policies read; only the rounds write."""

    submit_s: FloatArray
    runtime_s: FloatArray  #: the truth; policies plan by ``planned_s``
    planned_s: FloatArray  #: the runtime that plans count on
    least_s: FloatArray  #: what a job still needs at least as far as plans know, however long it has run
    gpus: IntArray
    slo: BoolArray  #: has a deadline
    due_s: FloatArray  #: job x step: when each step's deadline is; infinite where there is no step
    worth: FloatArray  #: job x step: the share of the full reward, 0 where there is no step
    capacity: int
    rules: Rules

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
    def left_s(self) -> FloatArray:
        """Seconds that each of ``rows`` still needs as far as plans know."""
        rows = self.rows
        return np.maximum(self.planned_s[rows] - self.done_s[rows], self.least_s[rows]) + self.owed_s[rows]


def world_of(jobs: Workload, capacity: int, rules: Rules, planned_s: FloatArray | None = None) -> World:
    """Before the first arrival, on *capacity* GPUs. Without *planned_s* plans know the truth.

    With it, a job that has run nearly as long as planned, or longer, is taken to need ``OVERRUN`` of that still. Jobs
    without GPUs are left out by the caller; ValueError where one could never run.
    """
    if len(jobs) and (jobs.gpus.min() < 1 or jobs.gpus.max() > capacity):
        raise ValueError(f"jobs ask for {jobs.gpus.min()} to {jobs.gpus.max()} GPUs: accepted are 1 to {capacity}")
    known = [steps_of(text) for text in jobs.rewards.names]
    steps = max(1, max((len(one) for one in known), default=1))
    within, worth = np.full((len(known), steps), np.inf), np.zeros((len(known), steps))
    for text, one in enumerate(known):
        for step, (after_s, share) in enumerate(one):
            within[text, step], worth[text, step] = after_s, share
    slo = ~jobs.best_effort & np.isfinite(jobs.deadline_s)
    due_s, shares = within[jobs.rewards.codes], worth[jobs.rewards.codes]
    bare = ~np.isfinite(due_s[:, 0])
    due_s[bare, 0], shares[bare, 0] = (jobs.deadline_s - jobs.submit_s)[bare], 1.0
    due_s[~slo], shares[~slo] = np.inf, 0.0
    count = len(jobs)
    return World(
        submit_s=jobs.submit_s,
        runtime_s=jobs.runtime_s,
        planned_s=jobs.runtime_s if planned_s is None else planned_s,
        least_s=np.full(count, 1.0) if planned_s is None else np.maximum(1.0, OVERRUN * planned_s),
        gpus=jobs.gpus,
        slo=slo,
        due_s=due_s + jobs.submit_s[:, None],
        worth=shares,
        capacity=capacity,
        rules=rules,
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
