"""Nodes for jobs on part of one node, or spread over several; of the latter no two share a node unless they may."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray


def sizes(node_gpus: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sizes that jobs may have, as nodes and GPUs: powers of two on a node, of whole nodes, and all nodes.

    A change of size costs a restart, which less than a doubling rarely pays. Jobs of these sizes can always be packed
    where nodes have a power of two, if they may be moved.
    """
    node, count = int(node_gpus.max()), int((node_gpus == node_gpus.max()).sum())
    parts = [1 << power for power in range(node.bit_length()) if 1 << power < node]
    whole = sorted({1 << power for power in range(count.bit_length())} | {count})
    return np.array([1] * len(parts) + whole, dtype=np.int64), np.array(parts + [node * many for many in whole])


def packed(wanted: IntArray, held: IntArray, node_gpus: IntArray, *, shared: bool = False) -> IntArray:
    """Return the GPUs per job and node: *wanted* GPUs each, of one of the ``sizes``.

    Jobs that hold so many stay, unless their node is needed. One that fits on a node is on one. A larger one is spread
    evenly over as many nodes as are empty, where it has more of their network; with *shared* over all that have GPUs
    free, else no two such jobs share a node. A job that finds no room gets nothing.
    """
    size = int(node_gpus.max())
    stays = (held.sum(axis=1) == wanted) & (wanted > 0)
    surplus = np.where(wanted > size, np.count_nonzero(held, axis=1) - -(-wanted // size), 0)
    while True:
        gpus = _Packing(wanted, np.where(stays[:, None], held, 0), node_gpus, shared).filled()
        if (gpus.sum(axis=1) == wanted).all() or not stays.any():
            return gpus
        widest = int(np.argmax(np.where(stays, surplus, 0)))  # it shrinks to fewer nodes, before all jobs move
        stays = stays & (np.arange(len(wanted)) != widest) if stays[widest] and surplus[widest] else stays & False


class _Eviction(NamedTuple):
    """Jobs that leave a node for a larger one; the least is best."""

    jobs: int
    gpus: int  #: of these jobs, on all nodes
    node: int
    rows: list[int]


class _Packing:
    """The nodes while they are filled: first the jobs that fit on one, then the others, the largest first of each."""

    def __init__(self, wanted: IntArray, gpus: IntArray, node_gpus: IntArray, shared: bool) -> None:
        self._wanted, self._gpus, self._shared = wanted, gpus, shared
        self._size = int(node_gpus.max())
        self._free = node_gpus - gpus.sum(axis=0)

    def filled(self) -> IntArray:
        """Return the GPUs per job and node."""
        waiting = [(-int(self._wanted[row]), row) for row in self._missing(self._wanted <= self._size)]
        heapq.heapify(waiting)
        while waiting:
            row = heapq.heappop(waiting)[1]
            many = int(self._wanted[row])
            fits = np.flatnonzero(self._free >= many)
            if len(fits):
                self._take(row, int(fits[np.argmin(self._free[fits])]), many)
            elif evictions := list(self._evictions(many)):
                _, _, node, leaving = min(evictions)
                for other in leaving:
                    self._free += self._gpus[other]
                    self._gpus[other] = 0
                    if self._wanted[other] <= self._size:
                        heapq.heappush(waiting, (-int(self._wanted[other]), other))
                self._take(row, node, many)
        spread = sorted(self._missing(self._wanted > self._size), key=lambda row: -int(self._wanted[row]))
        for at, row in enumerate(spread):
            self._spread(row, sum(self._nodes(other) for other in spread[at + 1 :]))
        return self._gpus

    def _missing(self, which: BoolArray) -> list[int]:
        rows: list[int] = np.flatnonzero(which & (self._wanted > 0) & ~self._gpus.any(axis=1)).tolist()
        return rows

    def _nodes(self, row: int) -> int:
        """Return the fewest nodes of a job."""
        return -(-int(self._wanted[row]) // self._size)

    def _take(self, row: int, node: int, many: int) -> None:
        self._gpus[row, node] += many
        self._free[node] -= many

    def _evictions(self, many: int) -> list[_Eviction]:
        """Return what could leave each node for *many* GPUs of it: jobs that spread, then smaller ones."""
        found = []
        moves = (self._wanted > self._size) | (self._wanted < many)
        for node in range(len(self._free)):
            rows = np.flatnonzero(moves & (self._gpus[:, node] > 0))
            rows = rows[np.lexsort((self._wanted[rows], self._wanted[rows] <= self._size))]
            enough = np.flatnonzero(self._free[node] + np.cumsum(self._gpus[rows, node]) >= many)
            if len(enough):
                leaving = rows[: enough[0] + 1]
                found.append(_Eviction(len(leaving), int(self._wanted[leaving].sum()), node, leaving.tolist()))
        return found

    def _spread(self, row: int, reserved: int) -> None:
        """Spread a job over nodes, and leave so many empty ones to others that are *reserved*."""
        several = np.count_nonzero(self._gpus, axis=1) > 1
        taken = (self._gpus[several] > 0).any(axis=0)
        room = self._free if self._shared else np.where(taken, 0, self._free)
        left = int(self._wanted[row])
        nodes = np.argsort(-room, kind="stable")
        least = int(np.searchsorted(np.cumsum(room[nodes]), left)) + 1
        if least > len(nodes):
            return
        empty = int(np.count_nonzero(room == self._size)) - reserved
        nodes = nodes[: np.count_nonzero(room) if self._shared else max(least, empty)]
        while left:
            for node in nodes[self._free[nodes] > 0].tolist()[:left]:
                self._take(row, node, 1)
                left -= 1
