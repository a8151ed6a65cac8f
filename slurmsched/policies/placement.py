"""Placements: choose the nodes of a job's GPUs. Compiled loops that the daemon and the simulator share."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import IntArray
from .compiled import entry, inner
from .contract import PLACEMENTS, Placement

POOL, FIRST_FREE, CONSOLIDATE, QUASI, ROOMIEST, GRADIENT, FILLED_GRADIENT = 0, 1, 2, 3, 4, 5, 6
ANY_NUMBER = 7
"""As few nodes as hold a job now, with as many GPUs on each as there are: so Slurm places one that names no number."""


@entry
def place(how: int, free: IntArray, size: int, gpus: int, nodes: IntArray, taken: IntArray) -> int:
    """Find room for a job of *gpus* GPUs on nodes of *size* GPUs, of which *free* are free on each.

    Write the chosen nodes and the GPUs on each into *nodes* and *taken*, and return the number of nodes; 0 if there is
    no room. *free* is not changed. A job is placed whole or not at all. The gradients are here as CONSOLIDATE: they
    need to know more than GPUs (``selection.node_search``).
    """
    if how in (CONSOLIDATE, ROOMIEST, GRADIENT, FILLED_GRADIENT):
        return _consolidate(free, size, gpus, nodes, taken, how == ROOMIEST and gpus > 1)
    found = 0
    if how == QUASI:
        found = _consolidate(free, size, gpus, nodes, taken, False)
        return found if found else _emptiest(free, gpus, nodes, taken)
    for node in range(len(free)):
        if free[node] > 0:
            nodes[found] = node
            taken[found] = min(free[node], gpus)
            gpus -= taken[found]
            found += 1
            if gpus == 0:
                return found
    return 0


@entry
def _consolidate(free: IntArray, size: int, gpus: int, nodes: IntArray, taken: IntArray, emptiest: bool) -> int:
    """Take wholly free nodes first, then the fullest node that still holds the rest, or else the *emptiest*."""
    whole, rest = gpus // size, gpus % size
    found = 0
    if whole > 0:
        for node in range(len(free)):
            if free[node] == size and found < whole:
                nodes[found] = node
                taken[found] = size
                found += 1
        if found < whole:
            return 0
    if rest == 0:
        return found
    best = -1
    for node in range(len(free)):
        better = best < 0 or (free[node] > free[best] if emptiest else free[node] < free[best])
        if free[node] >= rest and better:
            used = False
            for at in range(found):
                if nodes[at] == node:
                    used = True
                    break
            if not used:
                best = node
                if free[node] == (size if emptiest else rest):
                    break
    if best < 0:
        return 0
    nodes[found] = best
    taken[found] = rest
    return found + 1


@inner
def _emptiest(free: IntArray, gpus: int, nodes: IntArray, taken: IntArray) -> int:
    """Take the nodes with most free GPUs in turn."""
    found, left = 0, free.copy()
    while gpus > 0:
        node = np.argmax(left)
        if left[node] == 0:
            return 0
        nodes[found], taken[found] = node, min(left[node], gpus)
        gpus -= taken[found]
        left[node] = 0
        found += 1
    return found


def placement(
    name: str,
    summary: str,
    sensitive: int,
    other: int,
    *,
    links: bool = False,
    least_speed: float = 0.0,
) -> Placement:
    """Register a placement under *name*: the way for jobs that spreading slows down, and that for all others.

    With *links* GPUs of a node are chosen by the links between them. With *least_speed* those of a measured kind are
    the jobs that are slower than this when spread, as a share of their speed on as few nodes as they need.
    """
    by_jobs = bool({sensitive, other} & {GRADIENT, FILLED_GRADIENT})
    made = Placement(name, place, summary, sensitive, other, links=links, least_speed=least_speed, by_jobs=by_jobs)
    return PLACEMENTS.add(made)


_LINKS = "The fewest nodes, the best fit for the rest; on a node the free GPUs with most bandwidth between them."
placement("links", _LINKS, CONSOLIDATE, CONSOLIDATE, links=True)
_ROOMIEST = "As links, but several GPUs on one node are of the node with most free ones."
placement("links-roomiest", _ROOMIEST, ROOMIEST, ROOMIEST, links=True)

for _name, _summary, _sensitive, _other in (
    ("pool", "Node boundaries do not count.", POOL, POOL),
    ("first-free", "Any free GPUs, the lowest node first.", FIRST_FREE, FIRST_FREE),
    ("consolidate", "The fewest nodes, the best fit for the rest.", CONSOLIDATE, CONSOLIDATE),
    (
        "quasi-consolidate",
        "Consolidate jobs that spreading slows down; others as far as there is room (Chronus).",
        CONSOLIDATE,
        QUASI,
    ),
    (
        "tiresias-skew",
        "Consolidate only jobs that spreading slows down (Gu et al., NSDI'19).",
        CONSOLIDATE,
        FIRST_FREE,
    ),
):
    placement(_name, _summary, _sensitive, _other)
