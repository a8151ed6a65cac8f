"""Lease problems: jobs with deadlines, slots of time, and GPUs in each slot; and plans, their solutions.

Time is divided into slots of one SLO lease; slot 0 begins now. A job needs a number of leases, each with all its GPUs.
A deadline is the number of slots that end by then (section 3.3.4: a deadline D has floor(D / lease) slots).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LeaseProblem:
    """A problem: jobs as columns, their reward steps as a matrix, and the GPUs of each slot.

    A step is a deadline and the value of meeting it; a job earns the first step it meets. A job with fewer steps than
    the matrix has columns has no slots and no value in the rest. ValueError describes inconsistent input.
    """

    gpus: IntArray  #: GPUs of each job while it runs
    leases: IntArray  #: leases that each job still needs, at least one
    contiguous: BoolArray  #: cannot be stopped once it runs
    fixed: BoolArray  #: contiguous and running: it holds its GPUs from slot 0 in any plan
    promised: IntArray  #: index of the step that was promised to the job, -1 if none was
    slots: IntArray  #: job x step: number of slots that end by the deadline, rising, 0 for no step
    values: FloatArray  #: job x step: the value of meeting it, falling, 0 for no step
    capacity: IntArray  #: level x slot: GPUs in blocks of 2**level or more, around those of fixed jobs; level 0 is all

    def __post_init__(self) -> None:
        count = len(self.gpus)
        columns = (self.leases, self.contiguous, self.fixed, self.promised, self.slots, self.values)
        if {len(column) for column in columns} != {count} or self.slots.shape != self.values.shape:
            raise ValueError("a ragged lease problem")
        if count and (self.gpus.min() < 1 or self.leases.min() < 1):
            raise ValueError("jobs ask for 1 GPU and 1 lease at least")
        if self.capacity.ndim != 2 or not self.capacity.size or self.capacity.min() < 0:
            raise ValueError("capacity: accepted are one row a level and one column a slot, none below 0")
        if np.any(np.diff(self.capacity, axis=0) > 0):
            raise ValueError("capacity rises with the level: larger blocks are among the smaller ones")
        steps = self.values > 0
        later, worth = self.slots[:, 1:], self.values[:, 1:]
        if np.any(steps[:, 1:] & ((later < self.slots[:, :-1]) | (worth > self.values[:, :-1]))):
            raise ValueError("steps: accepted are deadlines by time, worth less and less")
        if np.any(self.fixed & ~self.contiguous):
            raise ValueError("only a contiguous job can be fixed")
        if np.any(self.promised >= self.slots.shape[1]):
            raise ValueError("a promised step that does not exist")
        for field in fields(self):
            getattr(self, field.name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def horizon(self) -> int:
        """The number of slots."""
        return int(self.capacity.shape[1])

    @cached_property
    def last(self) -> IntArray:
        """The slots before each job's last deadline, within the horizon; 0 if it has no step."""
        last: IntArray = np.minimum(np.where(self.values > 0, self.slots, 0).max(axis=1, initial=0), self.horizon)
        return last

    @cached_property
    def level(self) -> IntArray:
        """The level of the largest blocks of each job: 2**level divides its GPUs."""
        level = np.zeros(len(self), np.int64)
        for above in range(1, len(self.capacity)):
            level[self.gpus % (1 << above) == 0] = above
        return level

    @cached_property
    def free(self) -> IntArray:
        """The capacity left by fixed jobs, never below 0."""
        left = self.capacity.copy()
        for job in np.flatnonzero(self.fixed):
            left[: self.level[job] + 1, : self.leases[job]] -= self.gpus[job]
        return np.maximum(left, 0)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Return the problem of *rows* only, with all the capacity."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{n: column if n == "capacity" else column[rows] for n, column in named.items()})

    def step_met(self, ends: IntArray) -> IntArray:
        """Return the first step that each job meets if it ends after *ends* slots (0: never), -1 for none."""
        met = (self.values > 0) & (ends[:, None] > 0) & (ends[:, None] <= self.slots)
        return np.where(met.any(axis=1), met.argmax(axis=1), -1)

    def step_met_by(self, job: int, ends: IntArray) -> IntArray:
        """Return the first step that one *job* meets for each of *ends*, -1 for none."""
        met = (self.values[job] > 0) & (ends[:, None] <= self.slots[job])
        return np.where(met.any(axis=1), met.argmax(axis=1), -1)


@dataclass(frozen=True, eq=False)
class LeasePlan:
    """A plan: the leases of each job by slot, and their value."""

    grants: BoolArray  #: job x slot
    step: IntArray  #: the step each job meets, -1 for none
    value: float  #: of all steps met
    kept: int  #: number of promises kept
    bound: float  #: no plan that keeps as many promises is worth more
    origin: str  #: ``greedy`` or ``milp``

    @property
    def gap(self) -> float:
        """The largest possible loss of value as a share of the bound, from 0 to 1."""
        return max(0.0, 1.0 - self.value / self.bound) if self.bound > 0 else 0.0

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key of plans, promises first, then reward; larger is better."""
        return self.kept, self.value


def plan_of(problem: LeaseProblem, grants: BoolArray, origin: str, bound: float = np.inf) -> LeasePlan:
    """Return the plan of *grants*: steps, value and promises kept follow from the slots that jobs hold."""
    served = grants.sum(axis=1) >= problem.leases
    ends = np.where(served, problem.horizon - np.argmax(grants[:, ::-1], axis=1), 0)
    ends = np.where(problem.fixed, problem.leases, ends)
    step = problem.step_met(ends)
    met = step >= 0
    value = float(problem.values[met, step[met]].sum())
    kept = int(np.count_nonzero(met & (problem.promised >= 0) & (step <= problem.promised)))
    return LeasePlan(grants, step, value, kept, min(bound, float(problem.values[:, :1].sum())), origin)
