"""Which GPUs: blocks of powers of two, whole nodes first (section 3.4.1).

A node with any number of free GPUs is made of blocks: 7 of 4, 2 and 1. A job takes one block where it is no larger
than a node, else whole nodes. Widest jobs first, each job finds its blocks wherever the rows of
``capacity`` have room, which generalises Proposition 1 to nodes that are not wholly free and not of 2**n GPUs.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray


def levels(node_gpus: int) -> int:
    """How many sizes of blocks a node has: 4 where it has 8 GPUs, also where it has 12."""
    return max(1, int(node_gpus).bit_length())


def rounded_up(gpus: IntArray, node_gpus: int) -> IntArray:
    """*gpus* as consolidation-friendly numbers: powers of two within a node, whole nodes beyond (equation (6)).

    On nodes of 6, a job of 5 takes the whole node.
    """
    power = 1 << np.ceil(np.log2(np.maximum(gpus, 1))).astype(np.int64)
    nodes = -(-gpus // node_gpus) * node_gpus
    return np.where((gpus < node_gpus) & (power <= node_gpus), power, nodes)


def capacity_rows(free: IntArray, node_gpus: int) -> IntArray:
    """Level by level, GPUs in blocks of 2**level or more that are really free, given the *free* GPUs of each node."""
    sizes = 1 << np.arange(levels(node_gpus))
    rows: IntArray = (free[None, :] // sizes[:, None] * sizes[:, None]).sum(axis=1)
    return rows


def packed(gpus: IntArray, free: IntArray, node_gpus: int) -> IntArray | None:
    """GPUs of each job on each node (job x node), every job on as few nodes as it can be; None where there is no way.

    *gpus* as ``rounded_up`` makes them. Within a node a job takes the fullest node that still fits; of jobs no wider
    than a node there is a way wherever there is one at all, if nodes have 2**n GPUs.
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
