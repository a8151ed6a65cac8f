"""Greedy fit: select pending jobs that would run now on the free GPUs of their partitions."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.exclusions import sent_to
from ...cluster.jobs import JobTable
from ...cluster.nodes import NodeTable


def free_gpus(nodes: NodeTable, of: BoolArray | None = None) -> int:
    """Return the number of free GPUs on usable nodes, or on those of them that *of* selects."""
    return int(_free(nodes)[nodes.usable if of is None else nodes.usable & of].sum())


def fill(jobs: JobTable, rows: IntArray, nodes: NodeTable) -> BoolArray:
    """Select the *rows* that run if each job that still fits is started, in the given order (unrestricted backfill).

    GPUs are counted over all nodes of a job's partitions and GPU type: Slurm checks node boundaries, CPUs and memory.
    On nodes that jobs of several kinds may use, GPUs are taken last.
    """
    runs = np.zeros(len(rows), dtype=np.bool_)
    kinds, kind_of = _kinds(jobs, rows)
    may_use = np.array([nodes.with_gpus_for(*kind) for kind in kinds], dtype=np.bool_).reshape(len(kinds), len(nodes))
    cells, cell_of = np.unique(may_use, axis=1, return_inverse=True)
    free = np.bincount(cell_of.reshape(-1), _free(nodes), cells.shape[1]).astype(np.int64).tolist()
    own_first = np.argsort(cells.sum(axis=0), kind="stable").tolist()
    cells_of = [[cell for cell in own_first if mine[cell]] for mine in cells.tolist()]
    kinds_of = [np.flatnonzero(users).tolist() for users in cells.T]
    room = [sum(free[cell] for cell in mine) for mine in cells_of]
    gpus = (jobs.gpus * jobs.tasks)[rows]
    candidates = np.flatnonzero((gpus > 0) & (gpus <= np.array(room, dtype=np.int64)[kind_of]))
    columns = (candidates, kind_of[candidates], gpus[candidates])
    for place, kind, wanted in zip(*(column.tolist() for column in columns), strict=True):
        if wanted > room[kind]:
            continue
        runs[place], left = True, wanted
        for cell in cells_of[kind]:
            taken = min(free[cell], left)
            if not taken:
                continue
            free[cell], left = free[cell] - taken, left - taken
            for other in kinds_of[cell]:
                room[other] -= taken
    return runs


def _free(nodes: NodeTable) -> IntArray:
    return np.asarray(np.maximum(nodes.gpus - nodes.gpus_used, 0))


def _kinds(jobs: JobTable, rows: IntArray) -> tuple[list[tuple[str, str]], IntArray]:
    """Return the distinct pairs of partitions and GPU types of *rows*, and the index of the pair of each row.

    A job that was sent to types of GPUs has these.
    """
    types, steered = len(jobs.gpu_type.names), len(jobs.steered.names)
    sent = list(map(sent_to, jobs.steered.names))
    codes = (jobs.partition.codes[rows] * types + jobs.gpu_type.codes[rows]) * steered + jobs.steered.codes[rows]
    found, which = np.unique(codes, return_inverse=True)
    kinds = [
        (
            jobs.partition.names[code // steered // types],
            jobs.gpu_type.names[code // steered % types] or sent[code % steered],
        )
        for code in found.tolist()
    ]
    return kinds, which.reshape(-1)
