"""Greedy fit: select pending jobs that would run now on the free GPUs of their partitions."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray, Labels, numbered
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
    may_use, free = _cells(nodes, kinds)
    sets, set_of_kind = _distinct(may_use)
    room = sets @ free
    gpus = (jobs.gpus * jobs.tasks)[rows]
    if len(sets) == 1:  # on most clusters each job may use all GPUs
        candidates = np.flatnonzero((gpus > 0) & (gpus <= room[0]))
        runs[candidates] = _those_that_fit(gpus[candidates], int(room[0]))
        return runs
    set_of = set_of_kind[kind_of]
    candidates = np.flatnonzero((gpus > 0) & (gpus <= room[set_of]))
    shared: BoolArray = np.any(sets[:, np.flatnonzero(sets.sum(axis=0) > 1)], axis=1)
    for one in np.flatnonzero((room > 0) & ~shared).tolist():
        mine = candidates[set_of[candidates] == one]
        runs[mine] = _those_that_fit(gpus[mine], int(room[one]))
    rest = candidates[shared[set_of[candidates]]]
    if len(rest):
        own_first = np.argsort(may_use.sum(axis=0), kind="stable")
        runs[rest] = _in_turn(gpus[rest].tolist(), set_of[rest].tolist(), sets[:, own_first], free[own_first].tolist())
    return runs


def _those_that_fit(gpus: IntArray, free: int) -> BoolArray:
    """Select jobs that start on *free* GPUs which all of them may use: as ``_in_turn`` does, many at a time."""
    runs, rows = np.zeros(len(gpus), dtype=np.bool_), np.arange(len(gpus))
    while len(rows):
        used = np.cumsum(gpus[:free])  # each job takes one at least
        fits = int(np.searchsorted(used, free, side="right"))
        runs[rows[:fits]] = True
        free -= int(used[fits - 1])
        kept = np.flatnonzero(gpus[fits:] <= free) + fits  # the next one does not fit, and so none of its size
        rows, gpus = rows[kept], gpus[kept]
    return runs


def _in_turn(gpus: list[int], set_of: list[int], sets: BoolArray, free: list[int]) -> list[bool]:
    """Select jobs that start one after the other; each takes GPUs of the first cells of its set."""
    cells_of = [np.flatnonzero(mine).tolist() for mine in sets]
    sets_of = [np.flatnonzero(users).tolist() for users in sets.T]
    room, runs = [sum(free[cell] for cell in mine) for mine in cells_of], []
    for one, wanted in zip(set_of, gpus, strict=True):
        runs.append(wanted <= room[one])
        left = wanted if runs[-1] else 0
        for cell in cells_of[one]:
            if not left:
                break
            if taken := min(free[cell], left):
                free[cell], left = free[cell] - taken, left - taken
                for other in sets_of[cell]:
                    room[other] -= taken
    return runs


def _cells(nodes: NodeTable, kinds: list[tuple[str, str]]) -> tuple[BoolArray, IntArray]:
    """Return which groups of nodes each of *kinds* may use, and the free GPUs of each group.

    Nodes of a group are in the same partitions and have GPUs of the same types, or are open to the same kinds alone.
    """
    free = _free(nodes)
    some = np.flatnonzero((free > 0) & nodes.usable)
    groups, group_of = numbered(*_codes((nodes.partitions, nodes.gpu_type, nodes.gpu_types), some))
    first = np.empty(len(groups), dtype=np.int64)
    first[group_of[::-1]] = np.arange(len(some))[::-1]
    firsts = some[first]
    may_use = np.array([nodes.with_gpus_for(*kind, firsts) for kind in kinds], dtype=np.bool_)
    may_use = may_use.reshape(len(kinds), len(first))
    cells, cell_of = _distinct(may_use.T)
    sums = np.bincount(cell_of[group_of], free[some], len(cells))
    return cells.T, sums.astype(np.int64)


def _distinct(masks: BoolArray) -> tuple[BoolArray, IntArray]:
    """Return the rows of *masks*, each once and sorted, and which of them each is: quickly for few."""
    texts = [mask.tobytes() for mask in masks]
    first = dict(reversed([*zip(texts, range(len(texts)), strict=True)]))
    number = {text: place for place, text in enumerate(sorted(first))}
    rows = np.array([first[text] for text in number], dtype=np.int64)
    return masks[rows], np.array([number[text] for text in texts], dtype=np.int64)


def _free(nodes: NodeTable) -> IntArray:
    return np.asarray(np.maximum(nodes.gpus - nodes.gpus_used, 0))


def _codes(columns: tuple[Labels, ...], rows: IntArray) -> tuple[IntArray, int]:
    """Return a number for the texts of all *columns* in each of *rows*, and how many numbers there may be."""
    codes, size = np.zeros(len(rows), dtype=np.int64), 1
    for column in columns:
        if len(column.names) > 1:  # a long queue waits for each sum
            codes, size = codes * len(column.names) + column.codes[rows], size * len(column.names)
    return codes, size


def _kinds(jobs: JobTable, rows: IntArray) -> tuple[list[tuple[str, str]], IntArray]:
    """Return the distinct pairs of partitions and GPU types of *rows*, and the index of the pair of each row.

    A job that was sent to types of GPUs has these.
    """
    types, steered = len(jobs.gpu_type.names), len(jobs.steered.names)
    sent = list(map(sent_to, jobs.steered.names))
    found, which = numbered(*_codes((jobs.partition, jobs.gpu_type, jobs.steered), rows))
    kinds = [
        (
            jobs.partition.names[code // steered // types],
            jobs.gpu_type.names[code // steered % types] or sent[code % steered],
        )
        for code in found.tolist()
    ]
    return kinds, which
