"""GPU blocks of powers of two, whole nodes first (section 3.4.1).

The free GPUs of a node divide into blocks: 7 into 4, 2 and 1. A job no larger than a node takes one block, a larger one
whole nodes. If the widest jobs go first, each job finds its blocks wherever the rows of ``capacity`` have room; this
generalises Proposition 1 to partly free nodes and to nodes without 2**n GPUs.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray


def levels(node_gpus: int) -> int:
    """Return the number of block sizes of a node: 4 for 8 GPUs, and also for 12."""
    return max(1, int(node_gpus).bit_length())


def rounded_up(gpus: IntArray, node_gpus: int) -> IntArray:
    """Round *gpus* up to consolidation-friendly numbers: powers of two in a node, whole nodes beyond (equation (6)).

    On nodes of 6, a job of 5 takes the whole node.
    """
    power = 1 << np.ceil(np.log2(np.maximum(gpus, 1))).astype(np.int64)
    nodes = -(-gpus // node_gpus) * node_gpus
    return np.where((gpus < node_gpus) & (power <= node_gpus), power, nodes)


def capacity_rows(free: IntArray, node_gpus: int) -> IntArray:
    """Return per level the free GPUs in blocks of 2**level or more, given the *free* GPUs of each node."""
    sizes = 1 << np.arange(levels(node_gpus))
    rows: IntArray = (free[None, :] // sizes[:, None] * sizes[:, None]).sum(axis=1)
    return rows


def packed(gpus: IntArray, free: IntArray, node_gpus: int) -> IntArray | None:
    """Return GPUs of each job on each node (job x node), every job on the fewest nodes; None if no placement is found.

    *gpus* come from ``rounded_up``. A job smaller than a node takes the fullest node that fits. On nodes with 2**n GPUs
    a placement is always found if one exists, for jobs no wider than a node.
    """
    left, taken = free.copy(), np.zeros((len(gpus), len(free)), np.int64)
    for job in np.argsort(-gpus, kind="stable"):
        whole, rest = divmod(int(gpus[job]), node_gpus)
        empty = np.flatnonzero(left == node_gpus)[:whole]
        if len(empty) < whole:
            return None
        taken[job, empty] = node_gpus
        left[empty] = 0
        if rest:
            fits = np.flatnonzero(left >= rest)
            if not len(fits):
                return None
            node = fits[np.argmin(left[fits])]
            taken[job, node] = rest
            left[node] -= rest
    return taken
