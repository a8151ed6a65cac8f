"""What a placement allocates of a cluster, as means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .fill import fill
from .pods import GpuNodes, Pods


@dataclass(frozen=True)
class FillFigures:
    """Percentages of all GPUs once so many per cent of them have arrived; means over seeds."""

    placement: str
    allocated: float
    error: float  #: the standard error of ``allocated``; 0 for one seed
    fragments: float  #: free, and useless for one more typical pod
    dropped: float  #: per cent of the pods until then that found no room


def figures(
    nodes: GpuNodes,
    pods: Pods,
    placement: str,
    *,
    arrived: int = 130,
    seeds: Sequence[int] = range(10),
    orders: int = 1,
) -> FillFigures:
    """Fill the cluster with each seed, and with *orders* orders of equal nodes for each, until *arrived* per cent.

    ConfigError for an unknown placement.
    """
    every = [[_of(nodes, pods, placement, arrived, seed, order) for order in range(orders)] for seed in seeds]
    by_seed = np.array(every).mean(axis=1)
    allocated, fragments, dropped = by_seed.mean(axis=0).tolist()
    error = float(by_seed[:, 0].std(ddof=1)) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else 0.0
    return FillFigures(placement, allocated, error, fragments, dropped)


def _of(nodes: GpuNodes, pods: Pods, placement: str, arrived: int, seed: int, order: int) -> tuple[float, float, float]:
    filling = fill(nodes, pods, placement, ratio=arrived / 100, seed=seed, node_order=order)
    return *filling.at(arrived), 100 * float((filling.course.node < 0).mean())
