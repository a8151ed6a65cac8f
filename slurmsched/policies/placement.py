"""Placements: choose the nodes of a job's GPUs. Compiled loops that the daemon and the simulator share."""

from __future__ import annotations

from ..cluster.columns import IntArray
from .compiled import compiled

POOL, FIRST_FREE, CONSOLIDATE = 0, 1, 2
PLACEMENTS = {
    "pool": (POOL, POOL),
    "first-free": (FIRST_FREE, FIRST_FREE),
    "consolidate": (CONSOLIDATE, CONSOLIDATE),
    "tiresias-skew": (CONSOLIDATE, FIRST_FREE),
}
"""Per name, the placement of jobs that slow down when spread, and that of all other jobs.

pool: node boundaries do not count; first-free: any free GPUs, lowest node first; consolidate: the fewest nodes,
best fit for the rest; tiresias-skew: consolidate only jobs that spreading slows down (Gu et al., NSDI'19).
"""


@compiled
def place(how: int, free: IntArray, size: int, gpus: int, nodes: IntArray, taken: IntArray) -> int:
    """Find room for a job of *gpus* GPUs on nodes of *size* GPUs, of which *free* are free on each.

    Write the chosen nodes and the GPUs on each into *nodes* and *taken*, and return the number of nodes; 0 if there is
    no room. *free* is not changed. A job is placed whole or not at all.
    """
    if how == CONSOLIDATE:
        return _consolidate(free, size, gpus, nodes, taken)
    found = 0
    for node in range(len(free)):
        if free[node] > 0:
            nodes[found] = node
            taken[found] = min(free[node], gpus)
            gpus -= taken[found]
            found += 1
            if gpus == 0:
                return found
    return 0


@compiled
def _consolidate(free: IntArray, size: int, gpus: int, nodes: IntArray, taken: IntArray) -> int:
    """Take wholly free nodes first, then the fullest node that still holds the rest."""
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
        if free[node] >= rest and (best < 0 or free[node] < free[best]):
            used = False
            for at in range(found):
                if nodes[at] == node:
                    used = True
                    break
            if not used:
                best = node
                if free[node] == rest:
                    break
    if best < 0:
        return 0
    nodes[found] = best
    taken[found] = rest
    return found + 1
