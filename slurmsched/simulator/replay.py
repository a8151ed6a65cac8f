"""A replay: the outcome of each job of a workload under one policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from .cluster_spec import ClusterSpec
from .decisions import FAST, DecisionFigures
from .setup import Setup
from .task_outcome import TaskOutcome
from .workload.workload import EVERY_JOB, Workload

if TYPE_CHECKING:
    from .engine.segments import Segments
    from .synthesizer import SynthesisFigures


@dataclass(frozen=True)
class Replay:
    """The outcome of each job; row *i* belongs to row *i* of the workload."""

    setup: Setup
    fleet: ClusterSpec
    workload: Workload
    start_s: FloatArray  #: first start
    end_s: FloatArray
    spread: IntArray  #: most nodes a job was on
    stops: IntArray  #: preemptions
    forecast_s: FloatArray  #: the runtime forecast given to the policy; NaN where there was none
    idle_gpu_s: float = np.nan  #: GPU-seconds free while any job waited
    fragmented_gpu_s: float = np.nan  #: those of them free while a waiting, admitted job asked for no more than were
    segments: Segments | None = None  #: every run with its GPUs, if requested
    decisions: DecisionFigures = FAST
    synthesis: SynthesisFigures | None = None
    served_gpu_s: FloatArray | None = None  #: GPU-seconds that each job had; None where it follows from its runtime
    tasks: TaskOutcome | None = None  #: of the executor tasks
    measured: slice = field(default_factory=lambda: EVERY_JOB)  #: the jobs that count in figures about jobs


def restart_costs(jobs: Workload, setup: Setup) -> FloatArray:
    """Return the cost of resuming each job after a preemption, in seconds."""
    return setup.restart_s + setup.restart_doubling_s * np.log2(np.maximum(jobs.gpus, 1))
