"""Nodes for jobs that run on part of one node, or on whole ones: nobody shares a node while spread over several."""

from __future__ import annotations

import heapq

import numpy as np

from ...cluster.columns import IntArray


def sizes(node_gpus: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sizes that jobs may have, as nodes and GPUs: powers of two on a node, and whole nodes.

    Jobs of these sizes can always be packed where nodes have a power of two, if they may be moved.
    """
    node, count = int(node_gpus.max()), int((node_gpus == node_gpus.max()).sum())
    parts = [1 << power for power in range(node.bit_length()) if 1 << power < node]
    nodes = np.array([1] * len(parts) + list(range(1, count + 1)), dtype=np.int64)
    return nodes, np.concatenate([np.array(parts, dtype=np.int64), node * np.arange(1, count + 1)])


def packed(wanted: IntArray, held: IntArray, node_gpus: IntArray) -> IntArray:
    """Return the GPUs per job and node: *wanted* GPUs each, of one of the ``sizes``.

    Jobs that hold so many stay, unless their node is needed for a larger one. A job that finds no room gets nothing.
    """
    stays = (held.sum(axis=1) == wanted) & (wanted > 0)
    gpus = np.where(stays[:, None], held, 0)
    free = node_gpus - gpus.sum(axis=0)
    waiting = [(-int(wanted[row]), row) for row in np.flatnonzero(~stays & (wanted > 0)).tolist()]
    heapq.heapify(waiting)
    while waiting:
        count, row = heapq.heappop(waiting)
        for node, taken in _room(-count, gpus, free, node_gpus):
            for other in _in_the_way(taken - int(free[node]), gpus[:, node]):
                heapq.heappush(waiting, (-int(wanted[other]), other))
                free += gpus[other]
                gpus[other] = 0
            gpus[row, node] = taken
            free[node] -= taken
    return gpus


def _room(count: int, gpus: IntArray, free: IntArray, node_gpus: IntArray) -> list[tuple[int, int]]:
    """Return nodes with what *count* GPUs take of each: those that fit best, else those where least has to move away.

    Whole nodes come first. What has to move away is smaller than what takes its place.
    """
    size = int(node_gpus.max())
    whole, rest = divmod(count, size)
    spread = np.count_nonzero(gpus, axis=1) > 1
    alone = ~(gpus[spread] > 0).any(axis=0) if whole else np.ones(len(free), dtype=np.bool_)
    by_free = np.argsort(-free, kind="stable")
    emptied = by_free[(alone & (node_gpus == size) & (gpus.max(axis=0) < min(count, size)))[by_free]]
    room = [(int(node), size) for node in emptied[:whole]]
    if rest:
        taken = [node for node, _ in room]
        fits = np.setdiff1d(np.flatnonzero(alone & (free >= rest)), taken)
        smaller = [int(node) for node in emptied[whole:] if gpus[:, node].max() < rest]
        found = [int(fits[np.argmin(free[fits])])] if len(fits) else smaller[:1]
        room += [(node, rest) for node in found]
    return room if sum(taken for _, taken in room) == count else []


def _in_the_way(short: int, here: IntArray) -> list[int]:
    """Return the rows of the smallest jobs of a node that make room for *short* more GPUs."""
    rows = []
    for row in np.argsort(here, kind="stable")[np.count_nonzero(here == 0) :].tolist():
        if short <= 0:
            break
        rows.append(row)
        short -= int(here[row])
    return rows
