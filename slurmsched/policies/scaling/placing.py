"""Nodes for jobs whose number of GPUs is decided: those that hold it stay, the others take the nodes with most free."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray


def placed(wanted: IntArray, held: IntArray, node_gpus: IntArray, order: IntArray) -> IntArray:
    """Return the GPUs per job and node: jobs that hold exactly *wanted* stay, the others are placed in *order*.

    Each takes what it can of the node with most free GPUs, the first of equals, then of the next.
    """
    has = held.sum(axis=1)
    gpus = np.where((has == wanted)[:, None], held, 0)
    free = (node_gpus - gpus.sum(axis=0)).tolist()
    for row in order[(wanted[order] > 0) & (has[order] != wanted[order])].tolist():
        left = int(wanted[row])
        while left:
            most = max(free)
            node, taken = free.index(most), min(most, left)
            gpus[row, node] = taken
            free[node] -= taken
            left -= taken
    return gpus


def fitting(gpus: IntArray, order: IntArray, free: int) -> IntArray:
    """Return the GPUs of jobs that run: each in *order* that still fits into *free*; 0 for the others."""
    wanted = np.zeros(len(gpus), dtype=np.int64)
    for row, count in zip(order.tolist(), gpus[order].tolist(), strict=True):
        if count <= free:
            wanted[row] = count
            free -= count
    return wanted
