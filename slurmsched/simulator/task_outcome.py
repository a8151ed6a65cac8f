"""The outcome of a replay at the level of tasks, beside starts and ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cluster.columns import BoolArray, FloatArray
from .workload.workload import Workload


@dataclass(frozen=True)
class TaskOutcome:
    """Row *i* of each column belongs to job *i*; a part is one of all iterations of the job, 0..1."""

    done: FloatArray  #: part that was done
    by_deadline: FloatArray  #: part that was done by the deadline
    reached_s: FloatArray  #: moment at which the required accuracy was reached; NaN if never
    stopped: BoolArray  #: ended by the load control
    sent_b: FloatArray  #: bytes between servers
    overloads: int  #: servers above the threshold, counted in each round
    migrations: int  #: tasks moved
    decision_ms: FloatArray  #: processor time of each decision


def accuracy_at(jobs: Workload, rows: Any, part: FloatArray) -> FloatArray:
    """Return the accuracy of jobs after the given part of their iterations."""
    rate = np.maximum(jobs.loss_rate[rows], 1e-9)
    return np.asarray(jobs.accuracy[rows] * np.expm1(-rate * part) / np.expm1(-rate))
