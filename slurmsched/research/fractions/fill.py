"""Filling a cluster, as FGD was measured (Weng et al., ATC'23): pods come and stay, and one without room is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...errors import ConfigError
from ...policies.compiled import compiled, inner
from ...policies.selection.fragmentation import GPU, NO_ROOM, WHOLE, TypicalJobs, fragment, take_idle
from .pods import GpuNodes, Pods
from .requests import Requests, arrivals_of, requests_of, typical_of
from .scores import (
    BEST_FIT,
    CLUSTERING,
    DOT_PRODUCT,
    FILLED_GRADIENT,
    GRADIENT,
    PACKING,
    RANDOM,
    FractionalNodes,
    best_gpu,
    has_room,
    rate,
)

PLACEMENTS = {
    "random": RANDOM,
    "dot-product": DOT_PRODUCT,
    "clustering": CLUSTERING,
    "packing": PACKING,
    "best-fit": BEST_FIT,
    "fgd": GRADIENT,
    "fgd-filled": FILLED_GRADIENT,
}
"""The placements by name."""


class Course(NamedTuple):
    """What became of the pods, a value for each arrival; thousandths of GPUs after it."""

    node: IntArray  #: -1 of a pod that was dropped
    allocated: IntArray
    fragments: FloatArray  #: what one more typical pod cannot use of what is free, on average


class Scores(NamedTuple):
    """Scores that are known: [request, node]; they hold while the node's version is theirs."""

    score: FloatArray
    gpu: IntArray
    of: IntArray
    version: IntArray  #: per node


@dataclass(frozen=True, eq=False)
class Filling:
    """A cluster after all arrivals, and the course of it."""

    capacity: int  #: thousandths of all GPUs
    arrived: IntArray  #: thousandths of GPUs that all pods up to each one asked for
    course: Course

    def at(self, percent: int) -> tuple[float, float]:
        """Return the allocated and the fragmented percentage of all GPUs while *percent* of them have arrived.

        It is the mean over the arrivals with that percentage, rounded; without any, that of the last one before.
        """
        arrived = np.round(100 * self.arrived / self.capacity)
        before = arrived[arrived <= percent]
        if not len(before):
            return 0.0, 0.0
        rows = arrived == before[-1]
        allocated, lost = self.course.allocated[rows].mean(), self.course.fragments[rows].mean()
        return 100 * float(allocated) / self.capacity, 100 * float(lost) / self.capacity


def fill(
    nodes: GpuNodes, pods: Pods, placement: str, *, ratio: float = 1.3, seed: int = 0, node_order: int = 0
) -> Filling:
    """Let pods arrive until they ask for *ratio* of all GPUs, in an order by *seed*.

    Of nodes with one score the first is taken, in one of many random orders: *node_order*. ConfigError for an unknown
    placement.
    """
    how = placement_of(placement)
    random = np.random.default_rng(seed)
    requests, row = requests_of(pods, nodes)
    rows = arrivals_of(pods, nodes.capacity, ratio, random)
    random = np.random.default_rng((seed, node_order))
    order, draws = random.permutation(len(nodes)), random.random((len(rows), 2))
    state, scores = _idle(nodes, order), _unknown(len(requests.gpus), len(nodes))
    course = Course(np.full(len(rows), -1), np.zeros(len(rows), np.int64), np.zeros(len(rows)))
    typical = typical_of(pods, nodes)
    _fill(how, state, requests, typical, row[rows], draws, scores, course)
    placed = course.node >= 0
    course.node[placed] = order[course.node[placed]]
    return Filling(nodes.capacity, np.cumsum(pods.demand[rows]), course)


def placement_of(name: str) -> int:
    """Return the number of a placement; ConfigError for an unknown one."""
    if name not in PLACEMENTS:
        raise ConfigError(f"placement {name!r}: accepted are {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name]


def _idle(nodes: GpuNodes, order: IntArray) -> FractionalNodes:
    gpus = nodes.gpus[order]
    free = np.where(np.arange(gpus.max()) < gpus[:, None], GPU, 0)
    sizes = np.zeros((len(gpus), gpus.max() + 1), dtype=np.int64)
    model = nodes.model.codes[order]
    return FractionalNodes(
        nodes.cpu_milli[order], nodes.memory_mib[order], gpus, free, model, sizes, np.zeros(gpus.max(), dtype=np.int64)
    )


def _unknown(requests: int, nodes: int) -> Scores:
    none = np.full((requests, nodes), -1, dtype=np.int64)
    return Scores(np.zeros((requests, nodes)), none.copy(), none, np.zeros(nodes, dtype=np.int64))


@compiled
def _fill(
    how: int,
    nodes: FractionalNodes,
    requests: Requests,
    typical: TypicalJobs,
    arriving: IntArray,
    draws: FloatArray,
    scores: Scores,
    course: Course,
) -> None:
    """Place each arriving request on the best node that has room, the first of equal ones."""
    lost, allocated = np.zeros(len(nodes.gpus)), 0
    for node in range(len(nodes.gpus)):
        lost[node] = fragment(typical, nodes.free[node], nodes.gpus[node], nodes.cpus[node], nodes.model[node])
    total = lost.sum()
    for at in range(len(arriving)):
        row = arriving[at]
        node = _best(how, nodes, requests, typical, row, draws[at, 0], scores)
        if node >= 0:
            gpu = scores.gpu[row, node]
            if how == RANDOM and gpu != WHOLE:
                gpu = best_gpu(how, nodes, requests, row, node, draws[at, 1])
            _take(nodes, requests, row, node, gpu)
            scores.version[node] += 1
            allocated += requests.gpus[row] * requests.share[row]
            before = lost[node]
            lost[node] = fragment(typical, nodes.free[node], nodes.gpus[node], nodes.cpus[node], nodes.model[node])
            total += lost[node] - before
        course.node[at], course.allocated[at], course.fragments[at] = node, allocated, total


@inner
def _best(
    how: int,
    nodes: FractionalNodes,
    requests: Requests,
    typical: TypicalJobs,
    row: int,
    draw: float,
    scores: Scores,
) -> int:
    """Return the node with the highest score, at random any one with room; -1 without room."""
    best, found, many = NO_ROOM, -1, 0
    for node in range(len(nodes.gpus)):
        if scores.of[row, node] != scores.version[node]:
            scores.of[row, node] = scores.version[node]
            scores.score[row, node] = NO_ROOM
            if has_room(nodes, requests, row, node):
                scores.score[row, node], scores.gpu[row, node] = rate(how, nodes, requests, typical, row, node)
        many += scores.score[row, node] > NO_ROOM
        if scores.score[row, node] > best:
            best, found = scores.score[row, node], node
    if how != RANDOM or found < 0:
        return found
    left = int(draw * many)
    for node in range(len(nodes.gpus)):
        if scores.score[row, node] > NO_ROOM:
            if left == 0:
                return node
            left -= 1
    return found


@inner
def _take(nodes: FractionalNodes, requests: Requests, row: int, node: int, gpu: int) -> None:
    """Take what a request asks for; of the GPUs *gpu*, or the lowest idle ones for whole ones."""
    nodes.cpus[node] -= requests.cpus[row]
    nodes.memory_mib[node] -= requests.memory_mib[row]
    if gpu == WHOLE:
        take_idle(nodes.free[node], nodes.gpus[node], requests.gpus[row])
        nodes.sizes[node, requests.gpus[row]] += requests.gpus[row] > 0
    else:
        nodes.free[node, gpu] -= requests.share[row]
        nodes.sizes[node, 0] += 1
