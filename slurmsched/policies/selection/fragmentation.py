"""Fragmentation of free GPUs, and scores of nodes by its gradient, in loops that compile.

The free GPUs of a node are a fragment for a job as far as the job cannot use them. FGD (Weng et al., ATC'23) puts a job
where it adds least to the fragments of typical jobs, which are kinds of jobs with their part of all jobs. Here are both
its measure, which asks what one more job of a kind could use, and one that asks what any number of them could.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import borrowing
from .struct_arrays import records

GPU = 1000  #: thousandths of a GPU
WHOLE = -1  #: in place of a GPU's number: a job has no fraction of one
NO_ROOM = -np.inf

FGD, FILLED = 0, 1
"""Measures: what one more job could use, in FGD's whole points; what any number of jobs could, as it is."""

POINTS = 100  #: FGD's best score


class JobKinds(NamedTuple):
    """Kinds of jobs; all numbers are those on one node."""

    cpus: IntArray
    gpus: IntArray  #: 0 of a job without GPUs
    share: IntArray  #: thousandths of each of its GPUs
    part: FloatArray  #: of all jobs; they add up to 1


class TypicalJobs(NamedTuple):
    """The kinds of typical jobs, and where they may run."""

    kinds: JobKinds
    allowed: BoolArray  #: [kind, group of nodes]


class JobMix(NamedTuple):
    """Typical jobs, and scratch for the GPUs of a node."""

    typical: TypicalJobs
    scratch: IntArray  #: [2, GPU]


def no_mix() -> JobMix:
    """Return the mix of no jobs."""
    none = np.zeros(0, dtype=np.int64)
    kinds = records(JobKinds(none, none, none, np.zeros(0)))
    return JobMix(TypicalJobs(kinds, np.zeros((0, 0), dtype=np.bool_)), np.zeros((2, 0), dtype=np.int64))


class NodeRoom(NamedTuple):
    """What is free on a node: the first *gpus* of *free*, thousandths each, and CPUs; *after* is scratch as long."""

    free: IntArray
    after: IntArray
    gpus: int
    cpus: int
    group: int  #: its column of ``TypicalJobs.allowed``


def most_frequent(columns: IntArray, part: float) -> tuple[IntArray, FloatArray]:
    """Return the most frequent columns that are together at least *part* of all, and their parts, which add up to 1.

    *columns* has a job in each column. Kinds that are as frequent are taken in falling order of their rows.
    """
    distinct, many = np.unique(columns, axis=1, return_counts=True)
    order = np.lexsort((*distinct[::-1], many))[::-1]
    enough = int(np.searchsorted(np.cumsum(many[order]), part * columns.shape[1])) + 1
    order = order[:enough]
    return np.ascontiguousarray(distinct[:, order]), many[order] / max(1, many[order].sum())


@borrowing
def fragment(typical: TypicalJobs, free: IntArray, gpus: int, cpus: int, group: int) -> float:
    """Return the thousandths of a node's free GPUs that one more typical job cannot use, on average.

    It is all of them for a job without GPUs or without room, and for others the GPUs of which too little is free.
    """
    total = 0
    for gpu in range(gpus):
        total += free[gpu]
    if total == 0:
        return 0.0
    kinds, lost = typical.kinds, 0.0
    for kind in range(len(kinds.part)):
        enough, too_little = 0, 0
        for gpu in range(gpus):
            if free[gpu] < kinds.share[kind]:
                too_little += free[gpu]
            else:
                enough += 1
        fits = kinds.gpus[kind] > 0 and enough >= kinds.gpus[kind] and cpus >= kinds.cpus[kind]
        lost += kinds.part[kind] * (too_little if fits and typical.allowed[kind, group] else total)
    return lost


@borrowing
def left_when_filled(typical: TypicalJobs, free: IntArray, gpus: int, cpus: int, group: int) -> float:
    """Return the thousandths of a node's free GPUs that typical jobs of one kind leave together, on average.

    As many jobs of a kind fill the node as its GPUs hold and its CPUs, which count as if they could be divided. Jobs
    without GPUs are no such kind.
    """
    total = 0
    for gpu in range(gpus):
        total += free[gpu]
    if total == 0:
        return 0.0
    kinds, left, parts = typical.kinds, 0.0, 0.0
    for kind in range(len(kinds.part)):
        if kinds.gpus[kind] == 0:
            continue
        parts += kinds.part[kind]
        held = 0
        if typical.allowed[kind, group]:
            for gpu in range(gpus):
                held += free[gpu] // kinds.share[kind]
        jobs = float(held // kinds.gpus[kind])
        if kinds.cpus[kind] > 0:
            jobs = min(jobs, cpus / kinds.cpus[kind])
        left += kinds.part[kind] * (total - jobs * kinds.gpus[kind] * kinds.share[kind])
    return left / parts if parts > 0 else 0.0


@borrowing
def gradient(measure: int, typical: TypicalJobs, room: NodeRoom, cpus: int, gpus: int, share: int) -> tuple[float, int]:
    """Return the score of a node with room for a job, the higher the better, and the GPU for a fraction of one.

    The job needs *cpus* and *share* thousandths of each of its *gpus*: of one GPU, or whole ones. The score is how much
    smaller the measure is afterwards; FGD's is in whole points.
    """
    before = _measured(measure, typical, room.free, room.gpus, room.cpus, room.group)
    for gpu in range(room.gpus):
        room.after[gpu] = room.free[gpu]
    if gpus == 0 or share == GPU:
        take_idle(room.after, room.gpus, gpus)
        after = _measured(measure, typical, room.after, room.gpus, room.cpus - cpus, room.group)
        return _score(measure, before - after), WHOLE
    best, chosen = NO_ROOM, WHOLE
    for gpu in range(room.gpus):
        if room.free[gpu] >= share and not _seen_before(room.free, gpu):
            room.after[gpu] -= share
            after = _measured(measure, typical, room.after, room.gpus, room.cpus - cpus, room.group)
            room.after[gpu] += share
            score = _score(measure, before - after)
            if score > best:
                best, chosen = score, gpu
    return best, chosen


@borrowing
def _seen_before(free: IntArray, gpu: int) -> bool:
    """Return True if as much is free of a lower GPU, which then has the same score."""
    seen = False
    for lower in range(gpu):
        seen |= free[lower] == free[gpu]
    return seen


@borrowing
def take_idle(free: IntArray, gpus: int, many: int) -> None:
    """Take so many idle GPUs of the first *gpus*, the lowest first."""
    for gpu in range(gpus):
        if many == 0:
            return
        if free[gpu] == GPU:
            free[gpu] = 0
            many -= 1


@borrowing
def _measured(measure: int, typical: TypicalJobs, free: IntArray, gpus: int, cpus: int, group: int) -> float:
    if measure == FGD:
        return float(fragment(typical, free, gpus, cpus, group))
    return float(left_when_filled(typical, free, gpus, cpus, group))


@borrowing
def _score(measure: int, gained: float) -> float:
    """Return the score of so many thousandths of GPUs; the sigmoid and its rounding are those of FGD's artifact."""
    return float(np.trunc(POINTS / (1 + np.exp(-gained / GPU)))) if measure == FGD else gained
