"""Figures about training at the level of tasks: accuracies, bytes between servers, load control, decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..replay import Replay
from ..task_outcome import accuracy_at

URGENT = 8.0
"""Jobs of more urgency are urgent (MLFS, section 4.2.2)."""

_MIB_B = 2**20


@dataclass(frozen=True)
class TrainingFigures:
    """The figures about the measured jobs of a replay at the level of tasks."""

    accuracy_by_deadline: float  #: mean of that at the deadline, or at an earlier end, over the job's final one
    accuracy_met: float  #: share of the jobs with the required accuracy by their deadline
    to_accuracy_s: dict[str, float]  #: from submit to the required accuracy: mean, p99, and never: jobs without
    urgent_deadline_miss_rate: float  #: of jobs with an urgency above 8; NaN where none has
    server_mib: float  #: MiB between servers
    overloads: int  #: servers above 0.9 of their CPUs or network, counted each round
    migrations: int
    stopped: dict[str, float]  #: jobs, gpu_hours_saved, below_required: those without the required accuracy
    decision_ms: dict[str, float]  #: mean and p99 processor time of ordering, selection and placement together

    @classmethod
    def of(cls, replay: Replay) -> Self | None:
        """Compute the figures of *replay*; None where it has no tasks."""
        tasks = replay.tasks
        if tasks is None:
            return None
        rows = np.arange(len(replay.workload))[replay.measured]
        jobs, end_s = replay.workload.take(rows), replay.end_s[rows]
        at_deadline = np.where(np.isnan(tasks.by_deadline[rows]), tasks.done[rows], tasks.by_deadline[rows])
        every = slice(None)
        accuracy = accuracy_at(jobs, every, at_deadline) / jobs.accuracy
        reached_s = tasks.reached_s[rows]
        to_accuracy_s = (reached_s - jobs.submit_s)[~np.isnan(reached_s)]
        urgent = (jobs.urgency > URGENT) & np.isfinite(jobs.deadline_s)
        stopped = tasks.stopped[rows]
        saved_s = jobs.gpus * jobs.runtime_s * (1 - tasks.done[rows])
        took_ms = tasks.decision_ms
        return cls(
            accuracy_by_deadline=_mean(accuracy),
            accuracy_met=_mean(reached_s <= jobs.deadline_s),
            to_accuracy_s={
                "mean": _mean(to_accuracy_s),
                "p99": float(np.percentile(to_accuracy_s, 99)) if len(to_accuracy_s) else np.nan,
                "never": int(np.isnan(reached_s).sum()),
            },
            urgent_deadline_miss_rate=_mean(end_s[urgent] > jobs.deadline_s[urgent]),
            server_mib=float(tasks.sent_b[rows].sum() / _MIB_B),
            overloads=tasks.overloads,
            migrations=tasks.migrations,
            stopped={
                "jobs": int(stopped.sum()),
                "gpu_hours_saved": float(saved_s[stopped].sum() / 3600),
                "below_required": int((stopped & np.isnan(reached_s)).sum()),
            },
            decision_ms={
                "mean": _mean(took_ms),
                "p99": float(np.percentile(took_ms, 99)) if len(took_ms) else np.nan,
            },
        )


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else np.nan
