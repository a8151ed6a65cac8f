"""Nodes for jobs whose number of GPUs is decided: those that hold it stay, the others take the nodes with most free."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.training import TrainingView, TypeSpeeds


def all_or_none(view: TrainingView, order: IntArray, *, passing: bool = True) -> IntArray:
    """Return the GPUs per job and node where each in *order* that still fits has all that its owner asks for.

    Without *passing* nothing passes a job that does not fit. Where the speed of jobs depends on the type of their GPUs,
    each is on nodes of one type that can run it: that of the GPUs it holds, else that with most free ones.
    """
    wanted, held, node_gpus = view.jobs.gpus, view.jobs.held, view.nodes.gpus
    if view.type_speeds is not None:
        return _on_one_type(view, view.type_speeds, order, passing)
    gpus = fitting(wanted, order, int(node_gpus.sum()), passing=passing)
    return placed(gpus, held, node_gpus, order)


def _on_one_type(view: TrainingView, speeds: TypeSpeeds, order: IntArray, passing: bool) -> IntArray:
    wanted, held, node_gpus = view.jobs.gpus, view.jobs.held, view.nodes.gpus
    free = np.bincount(speeds.node_type, node_gpus, len(speeds.types)).astype(np.int64)
    now = np.where(held.any(axis=1), speeds.node_type[np.argmax(held > 0, axis=1)], -1)
    kind = np.full(len(wanted), -1)
    for row in order.tolist():
        fits = (speeds.alone[row] > 0) & (free >= wanted[row])
        if fits.any():
            kind[row] = now[row] if now[row] >= 0 and fits[now[row]] else int(np.argmax(np.where(fits, free, -1)))
            free[kind[row]] -= wanted[row]
        elif not passing:
            break
    gpus = np.zeros_like(held)
    for number in range(len(speeds.types)):
        nodes = speeds.node_type == number
        gpus[:, nodes] = placed(np.where(kind == number, wanted, 0), held[:, nodes], node_gpus[nodes], order)
    return gpus


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


def fitting(gpus: IntArray, order: IntArray, free: int, *, passing: bool = True) -> IntArray:
    """Return the GPUs of jobs that run: each in *order* that still fits into *free*; 0 for the others.

    Without *passing* nothing passes a job that does not fit.
    """
    wanted = np.zeros(len(gpus), dtype=np.int64)
    for row, count in zip(order.tolist(), gpus[order].tolist(), strict=True):
        if count <= free:
            wanted[row] = count
            free -= count
        elif not passing:
            break
    return wanted
