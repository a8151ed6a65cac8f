"""The points of a job's priority that stay as they are: of its partition, its resources and its association."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import FloatArray
from ..cluster_spec import ClusterSpec
from ..workload.workload import Workload
from .shared_accounts import SharedAccounts

NODE, CPU, MEMORY, GPU = "node", "cpu", "mem", "gres/gpu"
_WEIGHT = re.compile(r"([^=,\s]+)=(\d+)")


@dataclass(frozen=True)
class FixedWeights:
    """PriorityWeightPartition, PriorityWeightAssoc, and PriorityWeightTRES by resource."""

    partition: float = 0.0
    association: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)


def resource_weights(text: str) -> dict[str, float]:
    """Return the weights in a text such as ``CPU=1000,Mem=2000,GRES/gpu=3000``, by resource in lower case."""
    return {name.lower(): float(weight) for name, weight in _WEIGHT.findall(text)}


def not_counted(weights: Mapping[str, float]) -> list[str]:
    """Return the resources with a weight that jobs are not known to ask for."""
    return [name for name, weight in weights.items() if weight and not _counted(name)]


def _counted(name: str) -> bool:
    return name in (NODE, CPU, MEMORY, GPU) or name.startswith(f"{GPU}:")


def fixed_points(jobs: Workload, fleet: ClusterSpec, weights: FixedWeights, accounts: SharedAccounts) -> FloatArray:
    """Return these points of each job; of several partitions, those of the one with most, as its first priority."""
    points = np.zeros(len(jobs))
    if weights.association:
        most = max(accounts.priority, default=0)
        points += weights.association * np.array(accounts.priority)[accounts.rows_of(jobs)] / max(1, most)
    if not (weights.partition or weights.resources):
        return points
    by_partition = np.zeros(len(jobs))
    for code, names in enumerate(jobs.partition.names):
        rows = jobs.partition.codes == code
        for name in names.split(","):
            here = _partition_points(fleet, weights, name) + _resource_points(jobs.take(rows), fleet, weights, name)
            by_partition[rows] = np.maximum(by_partition[rows], here)
    return points + by_partition


def _partition_points(fleet: ClusterSpec, weights: FixedWeights, name: str) -> float:
    """Return the points of a partition: its PriorityJobFactor over the highest one."""
    factors = dict(zip(fleet.partitions.name, fleet.partitions.job_factor.tolist(), strict=True))
    return float(weights.partition * factors.get(name, 0.0) / max(1, *factors.values(), 1))


def _resource_points(jobs: Workload, fleet: ClusterSpec, weights: FixedWeights, name: str) -> FloatArray:
    """Return the points of what jobs ask for, each resource over all that the partition has."""
    inside = [name in text.split(",") for text in fleet.nodes.partitions.names]
    here = fleet.nodes.partitions.map(inside if any(inside) else [True] * len(inside), np.bool_)
    points, nodes, there = np.zeros(len(jobs)), np.maximum(jobs.nodes, 1), fleet.nodes.take(here)
    counted = {
        NODE: (nodes, len(there)),
        CPU: (np.maximum(jobs.cpus, 1) * nodes, there.cpus.sum()),
        MEMORY: (jobs.memory_mib * nodes, there.memory_mib.sum()),
        GPU: (jobs.gpus, there.gpus.sum()),
    }
    for resource, weight in weights.resources.items():
        if resource in counted:
            asked, of = counted[resource]
        elif _counted(resource):
            kind = resource.removeprefix(f"{GPU}:")
            of_kind = jobs.gpu_type.map([text.lower() == kind for text in jobs.gpu_type.names], np.bool_)
            asked, of = np.where(of_kind, jobs.gpus, 0), there.gpus_of(kind).sum()
        else:
            continue
        points += weight * asked / max(float(of), 1.0)
    return points
