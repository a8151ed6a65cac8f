"""The GPU profiles of simulated runs, as the nodes would measure them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.profiles import NodeProfile
from ..cluster.text.tres import slots_in
from .workload.workload import Workload

_USE = ("gpu_util", "memory_util", "gpu_memory_mib")


def true_use(jobs: Workload) -> dict[str, FloatArray]:
    """Return the GPU use of each job: its own where the trace has it, else the mean of its program; NaN for none."""
    programs = jobs.work if any(jobs.work.names) else jobs.name
    return {name: _filled(getattr(jobs, name), programs.codes, len(programs.names)) for name in _USE}


def _filled(use: FloatArray, codes: IntArray, programs: int) -> FloatArray:
    usable = ~np.isnan(use)
    count = np.bincount(codes[usable], minlength=programs)
    total = np.bincount(codes[usable], use[usable], minlength=programs)
    mean = np.divide(total, count, out=np.full(programs, np.nan), where=count > 0)
    filled: FloatArray = np.where(usable, use, mean[codes])
    return filled


def profiles_of(
    ended: OutcomeTable, jobs: JobTable, use: dict[str, FloatArray], rows: dict[int, list[int]]
) -> Iterator[NodeProfile]:
    """Yield the profile of each run in *ended* that a node would have measured.

    *rows* has the rows in *jobs* and *use* of each job id. Jobs that share GPUs are not measured, nor those whose owner
    declined.
    """
    for at in np.flatnonzero((ended.runtime_s > 0) & (ended.gpus > 0)).tolist():
        row = rows[int(ended.job_id[at])][0]
        gpus, gpu_util = int(ended.gpus[at]), float(use["gpu_util"][row])
        if np.isnan(gpu_util) or jobs.noprofile[row] or jobs.off[row] or slots_in(jobs.per_node[row]):
            continue
        yield NodeProfile(
            job_id=int(ended.job_id[at]),
            restart=int(ended.restart[at]),
            node="",
            start_s=int(ended.started_s[at]),
            end_s=int(ended.ended_s[at]),
            gpus=gpus,
            measured_s=float(ended.runtime_s[at]),
            process_share=1.0,
            gpu_util=gpu_util,
            gpu_util_sd=0.0,
            memory_util=float(use["memory_util"][row]),
            memory_mib=gpus * float(use["gpu_memory_mib"][row]),
            power_w=float("nan"),
            unstable=0.0,
        )
