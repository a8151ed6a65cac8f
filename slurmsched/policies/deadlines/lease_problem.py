"""What is to be planned: jobs with deadlines, slots of time, and GPUs in each slot; and what a plan says.

Time is cut into slots of one SLO lease each; slot 0 begins now. A job needs a number of leases, each with all its GPUs.
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
    """Jobs as columns, steps of their reward as a matrix, and what is free in each slot.

    A step is a deadline and what meeting it is worth; a job earns the first step it meets. Where a job has fewer steps
    than the matrix has columns the rest has no slots and no value. ``ValueError`` says what cannot mean anything.
    """

    gpus: IntArray  #: of each job, while it runs
    leases: IntArray  #: that each job still needs, one at least
    contiguous: BoolArray  #: once begun it runs to its end
    fixed: BoolArray  #: contiguous and running: it holds its GPUs from slot 0, whatever the plan says
    promised: IntArray  #: index of the step that has been promised to the job, -1 where none has
    slots: IntArray  #: job x step: how many slots end by the deadline, rising, 0 where there is no step
    values: FloatArray  #: job x step: what meeting it is worth, falling, 0 where there is no step
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
        """How many slots there are."""
        return int(self.capacity.shape[1])

    @cached_property
    def last(self) -> IntArray:
        """Of each job, the slots before its last deadline, within the horizon; 0 where it has no step."""
        last: IntArray = np.minimum(np.where(self.values > 0, self.slots, 0).max(axis=1, initial=0), self.horizon)
        return last

    @cached_property
    def level(self) -> IntArray:
        """The largest blocks a job is made of: 2**level divides its GPUs."""
        level = np.zeros(len(self), np.int64)
        for above in range(1, len(self.capacity)):
            level[self.gpus % (1 << above) == 0] = above
        return level

    @cached_property
    def free(self) -> IntArray:
        """Capacity that fixed jobs leave, never below 0."""
        left = self.capacity.copy()
        for job in np.flatnonzero(self.fixed):
            left[: self.level[job] + 1, : self.leases[job]] -= self.gpus[job]
        return np.maximum(left, 0)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """The problem of *rows* only, with all the capacity."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{n: column if n == "capacity" else column[rows] for n, column in named.items()})

    def step_met(self, ends: IntArray) -> IntArray:
        """The first step each job meets that ends after so many slots (0: never), -1 where none."""
        met = (self.values > 0) & (ends[:, None] > 0) & (ends[:, None] <= self.slots)
        return np.where(met.any(axis=1), met.argmax(axis=1), -1)

    def step_met_by(self, job: int, ends: IntArray) -> IntArray:
        """The first step that one *job* meets for each of *ends*, -1 where none."""
        met = (self.values[job] > 0) & (ends[:, None] <= self.slots[job])
        return np.where(met.any(axis=1), met.argmax(axis=1), -1)


@dataclass(frozen=True, eq=False)
class LeasePlan:
    """Who holds a lease in which slot, and what that is worth."""

    grants: BoolArray  #: job x slot
    step: IntArray  #: the step each job meets, -1 where none
    value: float  #: of all steps met
    kept: int  #: promises kept
    bound: float  #: no plan that keeps as many promises is worth more
    origin: str  #: ``greedy`` or ``milp``

    @property
    def gap(self) -> float:
        """By how much of the bound the plan may be worth too little, from 0 to 1."""
        return max(0.0, 1.0 - self.value / self.bound) if self.bound > 0 else 0.0

    @property
    def rank(self) -> tuple[int, float]:
        """Promises first, then reward: the larger one is the better plan."""
        return self.kept, self.value


def plan_of(problem: LeaseProblem, grants: BoolArray, origin: str, bound: float = np.inf) -> LeasePlan:
    """The plan that *grants* make: steps, value and promises are read off the slots that jobs hold."""
    served = grants.sum(axis=1) >= problem.leases
    ends = np.where(served, problem.horizon - np.argmax(grants[:, ::-1], axis=1), 0)
    ends = np.where(problem.fixed, problem.leases, ends)
    step = problem.step_met(ends)
    met = step >= 0
    value = float(problem.values[met, step[met]].sum())
    kept = int(np.count_nonzero(met & (problem.promised >= 0) & (step <= problem.promised)))
    return LeasePlan(grants, step, value, kept, min(bound, float(problem.values[:, :1].sum())), origin)
