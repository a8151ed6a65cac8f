"""The GPU profiles of simulated runs, as the nodes would measure them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.profiles import NodeProfile
from ..cluster.text.tres import slots_in
from .workload.workload import Workload

T_PROF_S = 200.0
"""The time after which nodes deliver the first profile of a run, beyond its warm-up: ``EARLY_S`` of node.conf."""

_USE = ("gpu_util", "memory_util", "gpu_memory_mib")


def first_profile_s(started_s: FloatArray, coldstart_s: FloatArray) -> FloatArray:
    """Return the times at which nodes deliver the first profiles of jobs that run since *started_s*."""
    return started_s + coldstart_s + T_PROF_S


def true_use(jobs: Workload) -> dict[str, FloatArray]:
    """Return the GPU use of each job: its own where the trace has it, else the mean of its program; NaN for none."""
    return {name: _filled(getattr(jobs, name), jobs.program.codes, len(jobs.program.names)) for name in _USE}


def _filled(use: FloatArray, codes: IntArray, programs: int) -> FloatArray:
    usable = ~np.isnan(use)
    count = np.bincount(codes[usable], minlength=programs)
    total = np.bincount(codes[usable], use[usable], minlength=programs)
    mean = np.divide(total, count, out=np.full(programs, np.nan), where=count > 0)
    filled: FloatArray = np.where(usable, use, mean[codes])
    return filled


class MeasuredRun(NamedTuple):
    """A run of a job, or its beginning, as a node would measure it."""

    row: int  #: of the job, in the tables of the cluster
    job_id: int
    restart: int
    start_s: float
    end_s: float


def ended_runs(ended: OutcomeTable, rows: dict[int, list[int]]) -> Iterator[MeasuredRun]:
    """Yield the runs of *ended*; *rows* has the rows of each job id."""
    columns = (ended.job_id, ended.restart, ended.started_s, ended.ended_s)
    for job_id, *run in zip(*(column[ended.runtime_s > 0].tolist() for column in columns), strict=True):
        yield MeasuredRun(rows[job_id][0], job_id, *run)


def first_measured(
    rows: IntArray, restarts: IntArray, started_s: FloatArray, jobs: JobTable, since_s: float, now_s: float
) -> Iterator[MeasuredRun]:
    """Yield those of the running *rows* of *jobs* whose first profile nodes have delivered after *since_s*."""
    due_s = first_profile_s(started_s, jobs.coldstart_s[rows])
    due = (due_s > since_s) & (due_s <= now_s)
    columns = (rows[due], jobs.job_id[rows[due]], restarts[due], started_s[due])
    for row, job, restart, start_s in zip(*(column.tolist() for column in columns), strict=True):
        yield MeasuredRun(row, job, restart, start_s, now_s)


def profiles_of(runs: Iterable[MeasuredRun], jobs: JobTable, use: dict[str, FloatArray]) -> Iterator[NodeProfile]:
    """Yield the profile of each of *runs* that a node would have measured.

    *use* is that of ``true_use`` for the *jobs*. Jobs that share GPUs are not measured, nor those whose owner declined.
    """
    for run in runs:
        row, gpus = run.row, int(jobs.gpus[run.row])
        gpu_util = float(use["gpu_util"][row])
        if not gpus or np.isnan(gpu_util) or jobs.noprofile[row] or jobs.off[row] or slots_in(jobs.per_node[row]):
            continue
        yield NodeProfile(
            job_id=run.job_id,
            restart=run.restart,
            node="",
            start_s=int(run.start_s),
            end_s=int(run.end_s),
            gpus=gpus,
            measured_s=run.end_s - run.start_s,
            process_share=1.0,
            gpu_util=gpu_util,
            gpu_util_sd=0.0,
            memory_util=float(use["memory_util"][row]),
            memory_mib=gpus * float(use["gpu_memory_mib"][row]),
            power_w=float("nan"),
            unstable=0.0,
        )
