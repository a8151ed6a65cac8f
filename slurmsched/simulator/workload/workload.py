"""A workload: the jobs of a trace as columns, including true runtimes, which no policy may see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from ...cluster.jobs import JobTable, job_table
from .rewards import steps_of

EVERY_JOB = slice(None)

DOUBLING = 1.8
"""The speed of a job on twice as many GPUs, of those that can run on several numbers."""


class EarlierJobs(NamedTuple):
    """Jobs submitted before those of a replay: what a daemon knows of the usual load when it begins."""

    submit_s: FloatArray
    gpus: IntArray


NO_EARLIER_JOBS = EarlierJobs(np.zeros(0), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Workload(Table):
    """Jobs of a trace, by submit time (ties in the order of the source). Times are seconds from any origin."""

    job_id: IntArray
    submit_s: FloatArray
    runtime_s: FloatArray  #: true runtime: from start to end, on all its GPUs, undisturbed; infinite if not yet known
    gpus: IntArray  #: over all nodes
    nodes: IntArray  #: requested; 0 where the job does not say
    cpus: IntArray  #: per node; 0 where unknown
    memory_mib: FloatArray  #: per node; 0 where unknown
    time_limit_s: FloatArray  #: infinite where the trace has none
    user: Labels
    account: Labels
    partition: Labels  #: the virtual cluster where the trace has one
    qos: Labels
    name: Labels
    gpu_type: Labels
    features: Labels
    deadline_s: FloatArray  #: the first (strict) deadline, from the same origin as submit_s; infinite where none
    best_effort: BoolArray  #: never promised anything; True where the trace has no deadlines
    rewards: Labels  #: rewards for meeting deadlines, as ``1@9540,0.8@11340`` (traces/rewards.py); empty where none
    sensitive: BoolArray  #: slows down when spread over more nodes than it needs
    work: Labels  #: its program, as named in tables of measured pairs and of applications; empty where unknown
    batch: IntArray  #: samples per step of its training that its owner asks for; 0 where unknown
    iterations: FloatArray  #: steps of its training; 0 where unknown
    weight: FloatArray  #: its weight among all jobs that train
    gpu_util: FloatArray  #: 0..1 of each GPU while it has it alone; NaN where unknown, and so below
    memory_util: FloatArray  #: 0..1, of the memory controller
    gpu_memory_mib: FloatArray  #: of each GPU
    amp: BoolArray  #: uses mixed precision
    ckpt: BoolArray  #: saves its work, and may be requeued
    urgency: FloatArray  #: 0..10; NaN where unknown
    least_gpus: IntArray  #: on which it can run; 0 for no other number than its own
    most_gpus: IntArray
    lean: BoolArray  #: runs as fast with the CPUs and the memory that belong to its GPUs
    # The columns from here on describe training at the level of tasks, one on each GPU (MLFS).
    graph: Labels  #: of its tasks, as ``cluster.text.task_graph`` reads it; empty where unknown
    gpu_cpus: FloatArray  #: CPUs that each task keeps busy
    edge_b: FloatArray  #: bytes between two tasks of which one feeds the other, in each iteration
    average_b: FloatArray  #: bytes between a replica and its parameter server, in each iteration
    estimate_s: FloatArray  #: its runtime as estimated when it was submitted
    history_s: FloatArray  #: its runtime as forecast from the history of a site
    converges_at: FloatArray  #: part of its iterations after which it has the accuracy that its owner requires
    loss_rate: FloatArray  #: k of its loss ``1 + 4 exp(-k i)``, i from 0 to 1
    accuracy: FloatArray  #: after all iterations, 0..1
    accuracy_required: FloatArray  #: 0..1

    @property
    def program(self) -> Labels:
        """The program of each job: its ``work`` where the trace has any, else its name."""
        return self.work if any(self.work.names) else self.name


_NEUTRAL: dict[str, Any] = {
    "time_limit_s": np.inf,
    "deadline_s": np.inf,
    "best_effort": True,
    "weight": 1.0,
    **dict.fromkeys(("gpu_util", "memory_util", "gpu_memory_mib", "urgency", "accuracy"), np.nan),
    **dict.fromkeys(("estimate_s", "history_s"), np.nan),
    "converges_at": 1.0,
}


def workload(length: int, **columns: Any) -> Workload:
    """Build a Workload of *length* rows from the given columns; the rest take neutral values."""
    return table_of(Workload, length, _NEUTRAL, columns)


def of_gpus_alone(jobs: Workload) -> Workload:
    """Return *jobs* that ask for GPUs and nothing else."""
    none = np.zeros(len(jobs), dtype=np.int64)
    nowhere, nothing = Labels(none, ("",)), np.zeros(len(jobs))
    return replace(
        jobs, nodes=none, cpus=none, memory_mib=nothing, partition=nowhere, gpu_type=nowhere, features=nowhere
    )


def as_submitted(jobs: Workload) -> JobTable:
    """Return the jobs as pending ones, in the columns of a real cluster; unknown values are neutral."""
    nodes = np.maximum(jobs.nodes, 1)
    texts = ("user", "account", "partition", "qos", "name", "gpu_type", "features")
    return job_table(
        len(jobs),
        **{name: getattr(jobs, name) for name in ("job_id", "gpus", "time_limit_s", *texts)},
        nodes=nodes,
        cpus=nodes * np.maximum(jobs.cpus, 1),
        memory_mib=nodes * jobs.memory_mib,
        per_node=_requests(-(-jobs.gpus // nodes)),
        submitted_s=jobs.submit_s,
        first_submit_s=jobs.submit_s,
        eligible_s=jobs.submit_s,
        ckpt=jobs.ckpt,
        amp=jobs.amp,
        urgency=jobs.urgency,
        graph=jobs.graph,
        least_gpus=jobs.least_gpus,
        most_gpus=jobs.most_gpus,
        **_lean(jobs),
        **_deadlines(jobs),
    )


def _lean(jobs: Workload) -> dict[str, IntArray]:
    """Return the fewest and the most CPUs and memory per node of jobs that need little, as their comments have them."""
    memory_mib = jobs.memory_mib.astype(np.int64)
    return {
        "cpus_least": np.where(jobs.lean & (jobs.cpus > 0), 1, 0),
        "cpus_best": np.where(jobs.lean, jobs.cpus, 0),
        "mem_least_mib": np.where(jobs.lean & (memory_mib > 0), 1, 0),
        "mem_best_mib": np.where(jobs.lean, memory_mib, 0),
    }


def _deadlines(jobs: Workload) -> dict[str, Any]:
    """Return the columns of a job's deadline and of what a later end is worth, as its comment would have them."""
    has = np.isfinite(jobs.deadline_s)
    within_s = np.where(has, jobs.deadline_s - jobs.submit_s, 0.0)
    later = [steps_of(text)[1:] for text in jobs.rewards.names]
    texts = [";".join(f"{value!r} submit {round(at_s)}" for at_s, value in steps) for steps in later]
    soft: BoolArray = jobs.rewards.map([bool(steps) for steps in later], np.bool_)
    return {
        "deadline_s": jobs.deadline_s,
        "deadline_at_s": np.rint(within_s).astype(np.int64),
        "deadline_since": Labels(has.astype(np.int64), ("", "submit")),
        "soft": soft & has,
        "steps": Labels(jobs.rewards.codes, tuple(texts)).renamed(texts),
    }


def _requests(gpus: IntArray) -> Labels:
    """Return the generic resources per node that jobs request, as squeue writes them."""
    values, codes = np.unique(gpus, return_inverse=True)
    return Labels(codes.reshape(-1), tuple(f"gres:gpu:{many}" if many else "" for many in values.tolist()))
