"""The CPUs or the memory that a job needs of a node, between what it must have and what it can use (Synergy). Pure."""

from __future__ import annotations

import math


def right_size(own: float, share: float, used: float, least: float, best: float, spare: float) -> float:
    """Return the amount of one resource per node that a waiting job shall ask for.

    *own* is what its owner asks for, *share* the part of a node that belongs to its GPUs, *used* what its kind uses
    with a margin (NaN where unknown, infinite if more than it had), *least* and *best* what its owner says it can run
    with and can use (0 where nothing was said), *spare* what a node where it can start now has beyond the shares of the
    other free GPUs.

    It is never less than *share* or *used*, unless the owner asks for less than that; and more than *own* only up to
    *best* and *spare*. Where neither *used* nor *least* is known, nothing is taken from the job.
    """
    known = [value for value in (used, least) if not math.isnan(value) and value > 0]
    low = min(own, max(share, *known)) if known else own
    return min(max(spare, low), max(best or own, low))
