"""Scores of nodes for a pod under each placement, in loops that compile; a higher score is better.

Those but the last gradient are the scores of the artifact of FGD (Weng et al., ATC'23), in its whole points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import IntArray
from ...policies.compiled import inner
from ...policies.selection.fragmentation import FGD, FILLED, GPU, POINTS, WHOLE, NodeRoom, TypicalJobs, gradient
from .requests import Requests

GRADIENT, FILLED_GRADIENT, RANDOM, DOT_PRODUCT, CLUSTERING, PACKING, BEST_FIT = FGD, FILLED, 2, 3, 4, 5, 6
MOST_CPUS, MOST_GPUS = 128_000, 8 * GPU  #: of the largest node, by which the artifact measures what is free


class FractionalNodes(NamedTuple):
    """What is free on nodes, and which sizes of jobs run there."""

    cpus: IntArray  #: thousandths
    memory_mib: IntArray
    gpus: IntArray  #: how many it has
    free: IntArray  #: [node, GPU] thousandths
    model: IntArray  #: the column of ``Requests.allowed``
    sizes: IntArray  #: [node, size] pods that run there: size 0 with a fraction of a GPU, n with n whole ones
    after: IntArray  #: scratch, thousandths of the GPUs of a node


@inner
def best_gpu(how: int, nodes: FractionalNodes, requests: Requests, row: int, node: int, draw: float) -> int:
    """Return the GPU of a node for a request of a fraction: the fullest that holds it, or any one by *draw*."""
    share, found, many = requests.share[row], -1, 0
    for gpu in range(nodes.gpus[node]):
        if nodes.free[node, gpu] >= share:
            many += 1
            if found < 0 or nodes.free[node, gpu] < nodes.free[node, found]:
                found = gpu
    if how != RANDOM or found < 0:
        return found
    at = int(draw * many)
    for gpu in range(nodes.gpus[node]):
        if nodes.free[node, gpu] >= share:
            if at == 0:
                return gpu
            at -= 1
    return found


@inner
def has_room(nodes: FractionalNodes, requests: Requests, row: int, node: int) -> bool:
    """Return True if a node has the CPUs, the memory and the GPUs of a request."""
    if nodes.cpus[node] < requests.cpus[row] or nodes.memory_mib[node] < requests.memory_mib[row]:
        return False
    if requests.gpus[row] == 0:
        return True
    if not requests.allowed[row, nodes.model[node]]:
        return False
    enough = 0
    for gpu in range(nodes.gpus[node]):
        if nodes.free[node, gpu] >= requests.share[row]:
            enough += 1
    return bool(enough >= requests.gpus[row])


@inner
def rate(
    how: int, nodes: FractionalNodes, requests: Requests, typical: TypicalJobs, row: int, node: int
) -> tuple[float, int]:
    """Return the score of a node with room for a request, and the GPU for a fraction; WHOLE without one."""
    if how in (GRADIENT, FILLED_GRADIENT):
        room = NodeRoom(nodes.free[node], nodes.after, nodes.gpus[node], nodes.cpus[node], nodes.model[node])
        score, chosen = gradient(how, typical, room, requests.cpus[row], requests.gpus[row], requests.share[row])
        return score, chosen
    gpu = WHOLE
    if requests.gpus[row] == 1 and requests.share[row] < GPU:
        gpu = best_gpu(how, nodes, requests, row, node, 0.0)
    free = nodes.free[node, : nodes.gpus[node]].sum()
    wanted = requests.gpus[row] * requests.share[row]
    if how == DOT_PRODUCT:
        cpus = nodes.cpus[node] / MOST_CPUS * (requests.cpus[row] / MOST_CPUS)
        return np.trunc(POINTS * (1 - (cpus + free / MOST_GPUS * (wanted / MOST_GPUS)) / 2)), gpu
    if how == BEST_FIT:
        left = (nodes.cpus[node] - requests.cpus[row]) / MOST_CPUS * 0.5 + (free - wanted) / MOST_GPUS * 0.5
        return np.trunc((1 - left) * POINTS), gpu
    if wanted == 0 or how == RANDOM:
        return 0.0, gpu
    if how == CLUSTERING:
        return _clustering(nodes, requests, row, node, free), gpu
    return _packing(nodes, requests, row, node, gpu), gpu


@inner
def _clustering(nodes: FractionalNodes, requests: Requests, row: int, node: int, free: int) -> float:
    """Rate nodes with pods of the same size alone above those with others too, idle ones, and those with others."""
    size = requests.gpus[row] if requests.share[row] == GPU else 0
    sizes = 0
    for other in range(nodes.sizes.shape[1]):
        sizes += nodes.sizes[node, other] > 0
    step = 0
    if nodes.sizes[node, size] > 0:
        step = 3 if sizes == 1 else 2
    elif sizes == 0:
        step = 1
    return float(POINTS // 4 * (MOST_GPUS - free) // MOST_GPUS + POINTS * step // 4)


@inner
def _packing(nodes: FractionalNodes, requests: Requests, row: int, node: int, gpu: int) -> float:
    """Rate GPUs that are partly in use above idle ones of a node in use, and these above an idle node."""
    idle = 0
    for other in range(nodes.gpus[node]):
        idle += nodes.free[node, other] == GPU
    if idle == nodes.gpus[node]:
        return float(max(POINTS // 3 - idle, idle))
    if gpu == WHOLE or nodes.free[node, gpu] == GPU:
        return float(max(POINTS // 2 - requests.gpus[row], POINTS // 3))
    return float(max(POINTS - nodes.free[node, gpu] * 100 // GPU // 10, POINTS // 2))
