"""Fragmentation of free GPUs: the part that a typical job cannot use (Weng et al., ATC'23: FGD).

Typical jobs are kinds of jobs with their part of all jobs. What a job cannot use of a node is all that is free there if
the job does not fit on the node, and otherwise the GPUs of which less is free than it needs.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cluster.columns import BoolArray, FloatArray, IntArray
from .compiled import borrowing

GPU = 1000  #: thousandths of a GPU


class TypicalJobs(NamedTuple):
    """Kinds of jobs; all numbers are those of one node."""

    cpus: IntArray
    gpus: IntArray  #: 0 of a job without GPUs
    share: IntArray  #: thousandths of each of its GPUs
    part: FloatArray  #: of all jobs; they add up to 1
    allowed: BoolArray  #: [kind of jobs, group of nodes]


@borrowing
def unusable(typical: TypicalJobs, free: IntArray, gpus: int, cpus: int, group: int) -> float:
    """Return the thousandths of GPUs that typical jobs cannot use of a node, on average.

    The first *gpus* of *free* are the thousandths that are free of each GPU; *cpus* are the free CPUs, and *group* is
    the node's column of ``typical.allowed``. A job without GPUs can use none.
    """
    total = 0
    for gpu in range(gpus):
        total += free[gpu]
    if total == 0:
        return 0.0
    lost = 0.0
    for kind in range(len(typical.part)):
        enough, too_little = 0, 0
        for gpu in range(gpus):
            if free[gpu] < typical.share[kind]:
                too_little += free[gpu]
            else:
                enough += 1
        fits = typical.gpus[kind] > 0 and enough >= typical.gpus[kind] and typical.allowed[kind, group]
        fits = fits and cpus >= typical.cpus[kind]
        lost += typical.part[kind] * (too_little if fits else total)
    return lost
