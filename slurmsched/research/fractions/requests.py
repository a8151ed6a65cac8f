"""The distinct requests of pods, which of them are typical, and the order in which pods arrive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...errors import ConfigError
from ...policies.selection.fragmentation import JobKinds, TypicalJobs, most_frequent
from ...policies.selection.struct_arrays import records
from .pods import GpuNodes, Pods

TYPICAL = 0.95  #: the part of all pods that typical ones are at least


class Requests(NamedTuple):
    """What a pod asks for, a row for each distinct request."""

    cpus: IntArray  #: thousandths
    memory_mib: IntArray
    gpus: IntArray
    share: IntArray  #: thousandths of each GPU
    allowed: BoolArray  #: [request, model of GPUs]


def requests_of(pods: Pods, nodes: GpuNodes) -> tuple[Requests, IntArray]:
    """Return the distinct requests of *pods*, and the row of each pod's among them."""
    columns = np.array([pods.cpu_milli, pods.memory_mib, pods.gpus, pods.share, pods.models.codes])
    distinct, row = np.unique(columns, axis=1, return_inverse=True)
    cpus, memory_mib, gpus, share = (np.ascontiguousarray(column) for column in distinct[:4])
    allowed = _accepted(pods, nodes)[distinct[4]] | (gpus == 0)[:, None]
    return Requests(cpus, memory_mib, gpus, share, allowed), np.asarray(row, dtype=np.int64)


def typical_of(pods: Pods, nodes: GpuNodes, part: float = TYPICAL) -> TypicalJobs:
    """Return the most frequent requests of CPUs and GPUs, which together are at least *part* of all pods.

    Requests that are as frequent are taken in falling order of what they ask for. Those without GPUs belong to them.
    """
    kinds, parts = most_frequent(np.array([pods.cpu_milli, pods.share, pods.gpus, pods.models.codes]), part)
    cpus, share, gpus, models = kinds
    return TypicalJobs(records(JobKinds(cpus, gpus, share, parts)), _accepted(pods, nodes)[models])


def arrivals_of(pods: Pods, capacity: int, ratio: float, random: np.random.Generator) -> IntArray:
    """Return the rows of pods that arrive until their GPUs are *ratio* of *capacity*, in their order.

    All pods come first, once each and in any order, then pods drawn from them all; where all are too many, as many as
    are too many are left out.
    """
    most, demand = ratio * capacity, pods.demand
    if not 0 < ratio < np.inf:
        raise ConfigError(f"an arrived load of {ratio}: accepted are numbers above 0")
    rows, total = random.permutation(len(pods)), int(demand.sum())
    if total > most:
        out = random.permutation(len(pods))
        out = out[: int(np.argmax(total - np.cumsum(demand[out]) <= most)) + 1]
        return rows[~np.isin(rows, out)]
    drawn = [rows]
    while True:
        more = random.integers(len(pods), size=len(pods))
        sums = total + np.cumsum(demand[more])
        if sums[-1] > most:
            return np.concatenate([*drawn, more[: int(np.argmax(sums > most))]])
        drawn.append(more)
        total = int(sums[-1])


def _accepted(pods: Pods, nodes: GpuNodes) -> BoolArray:
    """Return which models of the nodes each distinct text of ``pods.models`` accepts."""
    wanted = [{name.strip() for name in text.split("|")} - {""} for text in pods.models.names]
    return np.array([[not names or model in names for model in nodes.model.names] for names in wanted], dtype=np.bool_)
