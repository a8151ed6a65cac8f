"""The expected GPU usage of jobs: from runs of the job itself, also the present one, else from runs of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .job_kind import kind_of
from .jobs import JobTable

LAST = 5  #: runs of a kind that count


@dataclass(frozen=True, slots=True)
class Use:
    """The measured GPU usage of a run, per GPU; NaN where it was not measured."""

    start_s: float  #: Unix time at which it was first measured
    end_s: float
    gpu_util: float  #: 0..1, mean
    memory_util: float  #: 0..1, mean of the memory controller
    gpu_memory_mib: float  #: the largest use of one GPU
    unstable: bool  #: its utilisation was unsteady


_NAN = float("nan")
_UNKNOWN = Use(_NAN, _NAN, _NAN, _NAN, _NAN, False)


def mean_use(uses: Sequence[Use]) -> Use:
    """Combine one or more runs of a kind: means, and the worst of memory and stability."""

    def mean(values: list[float]) -> float:
        measured = [value for value in values if value == value]
        return sum(measured) / len(measured) if measured else float("nan")

    memory_mib = [use.gpu_memory_mib for use in uses if use.gpu_memory_mib == use.gpu_memory_mib]
    return Use(
        min(use.start_s for use in uses),
        max(use.end_s for use in uses),
        mean([use.gpu_util for use in uses]),
        mean([use.memory_util for use in uses]),
        max(memory_mib, default=float("nan")),
        any(use.unstable for use in uses),
    )


def with_use(jobs: JobTable, by_job: Mapping[int, Use], by_kind: Mapping[str, Use]) -> JobTable:
    """Return *jobs* with their GPU usage, by job, else by kind."""
    return jobs.changed(**use_columns(jobs, by_job, by_kind))


def use_columns(jobs: JobTable, by_job: Mapping[int, Use], by_kind: Mapping[str, Use]) -> Mapping[str, Any]:
    """Return the columns of the GPU usage of *jobs*, by job, else by kind; none where nothing is known."""
    if not len(jobs) or not (by_job or by_kind):
        return {}
    pairs = jobs.user.codes * len(jobs.name.names) + jobs.name.codes
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    kinds = [by_kind.get(kind_of(jobs.user[row], jobs.name[row]), _UNKNOWN) for row in first.tolist()]
    columns: dict[str, Any] = {
        "gpu_util": np.array([use.gpu_util for use in kinds])[which],
        "memory_util": np.array([use.memory_util for use in kinds])[which],
        "gpu_memory_mib": np.array([use.gpu_memory_mib for use in kinds])[which],
        "unstable": np.array([use.unstable for use in kinds], dtype=np.bool_)[which],
    }
    for row, job_id in enumerate(jobs.job_id.tolist()):
        if (use := by_job.get(job_id)) is None:
            continue
        # Ids restart on a new controller: a run from before the job's submission is not its own.
        if use.start_s >= jobs.first_submit_s[row] - 1.0:
            for name, column in columns.items():
                column[row] = getattr(use, name)
    return columns | {"measured": np.isfinite(columns["gpu_util"])}
