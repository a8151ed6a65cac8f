"""GPU usage of jobs, as measured on the nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..columns import FloatArray, IntArray, Table

SAMPLER, PROMETHEUS = "sampler", "prometheus"  #: sources of measurements


@dataclass(frozen=True)
class NodeProfile:
    """The measurement of one run of a job on one node, over all GPUs of the job there.

    Shares are 0..1 and means over the samples in which a process used the GPU. NaN is "not measured"; a run in which no
    process used the GPU has ``process_share`` 0 and a utilisation of 0.
    """

    job_id: int
    restart: int  #: 0 for the first run
    node: str
    start_s: int  #: Unix time in whole seconds
    end_s: int
    gpus: int
    measured_s: float  #: duration for the GPU that was measured longest
    process_share: float  #: share of the samples in which a process used the GPU
    gpu_util: float
    gpu_util_sd: float  #: standard deviation of single samples
    memory_util: float  #: time the memory controller was busy
    memory_mib: float  #: largest use, summed over the GPUs
    power_w: float  #: mean, summed over the GPUs
    unstable: float  #: 1 for unsteady utilisation, 0 for steady
    link_gbps: float = math.nan  #: mean bandwidth between its GPUs, of a pair one way; NaN where pairs are alike
    best_link_gbps: float = math.nan  #: that of as many GPUs of the node at best
    idle_gpus: float = math.nan  #: that no process had used for half an hour (IDLE_S of node.conf) at the end
    idle_since_s: float = math.nan  #: since when no process has used any of these
    source: str = SAMPLER  #: who measured it


@dataclass(frozen=True)
class LinkUse:
    """The bandwidth between the GPUs of runs with so many of them on a node, weighted by GPU-seconds."""

    gpus: int
    runs: int  #: on nodes whose pairs of GPUs have links of their own
    gbps: float  #: mean per pair, one way
    best_gbps: float  #: of as many GPUs of their nodes at best
    lost: float  #: share of the latter that they did not have


@dataclass(frozen=True, eq=False)
class ProfileTable(Table):
    """Profiles of runs, oldest end first: one row per run of a job, over all its nodes; see NodeProfile."""

    job_id: IntArray
    restart: IntArray
    start_s: FloatArray  #: Unix seconds, when the first node began to measure
    end_s: FloatArray
    nodes: IntArray  #: that sent a record
    gpus: IntArray
    measured_s: FloatArray
    process_share: FloatArray
    gpu_util: FloatArray
    gpu_util_sd: FloatArray
    memory_util: FloatArray
    memory_mib: FloatArray
    power_w: FloatArray
    unstable: FloatArray
    link_gbps: FloatArray
    best_link_gbps: FloatArray


@dataclass(frozen=True, eq=False)
class MeasuredNodes(Table):
    """The records of nodes one by one, in no order; see NodeProfile."""

    job_id: IntArray
    restart: IntArray
    start_s: FloatArray
    end_s: FloatArray
    gpus: IntArray
    measured_s: FloatArray
    process_share: FloatArray
    gpu_util: FloatArray
    memory_mib: FloatArray
