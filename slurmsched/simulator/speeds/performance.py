"""What a simulation of training jobs needs to know of their true speed."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...errors import ConfigError


class EndRule(IntEnum):
    """The moment at which an epoch ends that is done within a round."""

    SECOND = 0  #: the nearest whole second
    EXACT = 1
    ROUND = 2  #: the end of the round; iterations of a round are whole


class Batch(NamedTuple):
    """The samples of an optimiser step: GPUs times *micro* times one more than *accumulated*."""

    micro: int  #: samples per GPU and micro-batch
    accumulated: int  #: micro-batches before the one that synchronises


class JobResources(NamedTuple):
    """What a job has in a round."""

    node_gpus: IntArray  #: on each node of the cluster
    cpus: float = 0.0  #: over all nodes; 0 where they are not divided
    memory_mib: float = 0.0
    batch: Batch | None = None  #: None for its owner's
    beside: int = -1  #: the row of the job on the same GPUs


class Measurement(NamedTuple):
    """What a job measures in an epoch."""

    step_s: float  #: seconds of an optimiser step without accumulation
    sync_s: float  #: those of them spent on communication
    grad_sqr: float
    grad_var: float


class Performance(Protocol):
    """The true speed of the jobs of a workload, by row. Progress is in iterations, each job's own unit."""

    end_rule: EndRule
    until: FloatArray  #: progress at the end of each epoch, a row per job; rows with fewer epochs repeat the last
    epochs: IntArray
    runtime_s: FloatArray  #: of each job alone, packed, on the GPUs and with the batch that its owner asks for
    left: FloatArray  #: iterations of the owner's batch that are forecast to be left in each epoch
    most_gpus: IntArray  #: that it can use with its owner's batch
    measured_gpus: IntArray  #: the most GPUs that the speed of each job is known on; none where batches never change
    limits: IntArray  #: of the batch, as in ``Goodputs``, a row per job; none where batches never change
    node_type: IntArray  #: the number of the type of each node's GPUs

    def rates(self, row: int, has: JobResources) -> FloatArray:
        """Return the progress per second in each epoch."""

    def measured(self, row: int, node_gpus: IntArray, batch: Batch, epoch: int) -> Measurement:
        """Return what a job with its own batch measures in an epoch."""

    def first_batch(self, row: int, gpus: int) -> tuple[Batch, bool]:
        """Return the batch that a job begins with on so many GPUs, and whether it will choose others."""

    def step_times(self, row: int, most: int) -> FloatArray:
        """Return the seconds of a step with the owner's batch on 0, 1, ... *most* GPUs of as few nodes as can be."""


class FixedBatch:
    """The part of ``Performance`` about the batch, of jobs that never change theirs."""

    measured_gpus: IntArray = np.zeros(0, dtype=np.int64)
    limits: IntArray = np.zeros((0, 4), dtype=np.int64)
    node_type: IntArray = np.zeros(0, dtype=np.int64)

    def measured(self, row: int, node_gpus: IntArray, batch: Batch, epoch: int) -> Measurement:
        """Raise ConfigError: there is no batch of its own."""
        raise ConfigError(f"row {row}: its batch never changes")

    def first_batch(self, row: int, gpus: int) -> tuple[Batch, bool]:
        """Raise ConfigError likewise."""
        raise ConfigError(f"row {row}: its batch never changes")
