"""Migration (MLFS section 3.3.3): overloaded nodes, the slowdown there, and what should leave them. Pure; compiles.

The simulator moves single tasks of gangs by these functions, the daemon whole jobs.
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import BoolArray, FloatArray
from .compiled import inner

NOBODY = -1

PRIORITY_PART = 0.1
"""The part of what runs on overloaded GPUs, lowest priority first, that may leave; one at least (p_s)."""


@inner
def slowed(busy: float, has: float) -> float:
    """Return how much longer work takes that needs a resource of which *busy* is asked for and *has* is there."""
    return max(1.0, busy / has)


@inner
def is_above(busy: float, has: float, most: float) -> bool:
    """Return whether more than the part *most* of a resource is in use."""
    return bool(busy > most * has)


@inner
def nearest_ideal(uses: FloatArray, overloaded: BoolArray, beside: FloatArray) -> int:
    """Return the row nearest to the ideal virtual task of a node, NOBODY without rows.

    That uses most of each *overloaded* resource, least of the others, and exchanges nothing with what is *beside* it.
    *uses* are parts of the node's resources, a row for each task or job and a column for each resource.
    """
    rows, resources = uses.shape
    signs = np.where(overloaded, 1.0, -1.0)
    ideal, together = np.full(resources, -np.inf), 0.0
    for row in range(rows):
        for resource in range(resources):
            ideal[resource] = max(ideal[resource], signs[resource] * uses[row, resource])
        together = max(together, beside[row])
    best, least = NOBODY, np.inf
    for row in range(rows):
        far = 0.0
        for resource in range(resources):
            far += (ideal[resource] - signs[resource] * uses[row, resource]) ** 2
        far += (beside[row] / together) ** 2 if together else 0.0
        if far < least:
            best, least = row, far
    return best
