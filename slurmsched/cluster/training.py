"""Jobs that train, as columns: their progress and size, what is known of their speed, and their allocations."""

from __future__ import annotations

from dataclasses import dataclass

from .columns import BoolArray, FloatArray, IntArray, Labels, Table
from .nodes import NodeTable


@dataclass(frozen=True, eq=False)
class TrainingJobs(Table):
    """Jobs that train and have not ended, by submission (ties in the order of the source)."""

    job_id: IntArray
    submit_s: FloatArray
    application: Labels
    gpus: IntArray  #: the GPUs that its owner asks for
    batch: IntArray  #: samples per step that its owner asks for; 0 where the batch is to be chosen
    most_gpus: IntArray  #: it can use no more, or may not yet
    weight: FloatArray
    done: FloatArray  #: progress, in the unit of its iterations
    left: FloatArray  #: iterations left, as forecast
    served_gpu_s: FloatArray  #: attained service
    ran_s: FloatArray  #: seconds with GPUs
    restarts: IntArray  #: changes of its GPUs after the first start
    held: IntArray  #: its GPUs on each node now, a column per node
    memo: FloatArray  #: what the last decision returned as ``Allocations.memo``; NaN for a new job, empty at first


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The seconds of an optimiser step of each job with its owner's batch, by the number of its GPUs."""

    seconds: FloatArray  #: per job, on 0, 1, 2, ... GPUs of as few nodes as can be; infinite on 0, NaN past the most


@dataclass(frozen=True, eq=False)
class LossCurves:
    """What each job has reported at the end of each epoch so far, and the loss at which it ends."""

    iterations: FloatArray  #: per job and epoch; NaN where it has not come to
    loss: FloatArray  #: likewise
    target: FloatArray


@dataclass(frozen=True, eq=False)
class TypeSpeeds:
    """The iterations per second of each job, on the GPUs that its owner asks for, by their type."""

    types: tuple[str, ...]  #: the fastest first, on average over all kinds of jobs
    node_type: IntArray  #: the number of the type of each node
    alone: FloatArray  #: per job and type; 0 where the job cannot run on it
    kind: IntArray  #: of each job: equal for jobs that are equally fast everywhere
    beside: FloatArray  #: of the first kind while the second is on the same GPUs, per type; 0 where they cannot share


@dataclass(frozen=True, eq=False)
class CpuNeeds:
    """What each job gains by CPUs and memory beyond its proportional share, per GPU."""

    cpus: FloatArray  #: with which, and with *memory_mib*, it is fastest
    memory_mib: FloatArray
    speedup: FloatArray  #: its best speed over that with the proportional share
    iteration_s: FloatArray  #: with the proportional share


@dataclass(frozen=True, eq=False)
class Goodputs:
    """What the reports of each job say about its speed and its statistical efficiency (Pollux, OSDI'21)."""

    known: BoolArray  #: there are reports; the rows of the others are undefined
    speed: FloatArray  #: the seven parameters of ``research.scaling.speed_model``, per job and type of GPU
    grad_sqr: FloatArray  #: squared norm of the gradient
    grad_var: FloatArray  #: variance of the gradient
    limits: IntArray  #: initial and largest batch, least and most samples per GPU and micro-batch; a row per job
    node_type: IntArray  #: the number of the type of each node's GPUs


@dataclass(frozen=True, eq=False)
class TrainingView:
    """The input of a scaling: read-only columns, and ``now_s`` in place of a clock.

    What a scaling does not need (``Scaling.needs``) may be None.
    """

    now_s: float
    round_s: float  #: until the next decision
    restart_s: float  #: what a change of its GPUs costs a job
    jobs: TrainingJobs
    nodes: NodeTable
    step_times: StepTimes | None = None
    curves: LossCurves | None = None
    goodputs: Goodputs | None = None
    type_speeds: TypeSpeeds | None = None  #: always there where jobs cannot run on GPUs of several types at once
    cpu_needs: CpuNeeds | None = None
    plan: object = None  #: that of the last decision of the same scaling; None before the first


@dataclass(frozen=True, eq=False)
class Allocations:
    """The allocation of each job until the next decision. The type of its GPUs is that of their nodes."""

    gpus: IntArray  #: per job and node
    cpus: FloatArray | None = None  #: per job and node; None where they are not divided
    memory_mib: FloatArray | None = None  #: likewise
    memo: FloatArray | None = None  #: columns of the scaling's own per job, for its next decision
    beside: IntArray | None = None  #: the row of the job on the same GPUs as each, -1 for none; None where none share
    plan: object = None  #: what the next decision shall know of this one, where that is more than columns per job
