"""Which GPUs each running job has: (node, GPUs) pairs in linked lists, for loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cluster.columns import IntArray
from ..policies.compiled import compiled
from ..policies.placement import place

NONE = -1


class Site(NamedTuple):
    """The nodes, and how jobs are placed on them."""

    free: IntArray  #: GPUs per node
    size: int  #: GPUs of a whole node
    how: int  #: one of ``PLACEMENTS``


class Grants(NamedTuple):
    """The books: ``first[row]`` is a job's first pair; unused pairs are chained from ``first[-1]``."""

    first: IntArray
    pairs: IntArray  #: three lines: node, GPUs, next pair
    room: IntArray  #: two lines, one column per node, for ``place`` to write in


@compiled
def no_grants(count: int, free: IntArray) -> Grants:
    """Empty books for *count* jobs: at most one pair per GPU is ever in use."""
    total = free.sum()
    first = np.full(count + 1, NONE, np.int64)
    pairs = np.empty((3, total), np.int64)
    pairs[2] = np.arange(1, total + 1)
    pairs[2, total - 1] = NONE
    first[-1] = 0
    return Grants(first, pairs, np.empty((2, len(free)), np.int64))


@compiled
def grant(site: Site, books: Grants, row: int, gpus: int) -> int:
    """Give job *row* its GPUs; on how many nodes they are, 0 and nothing changed where there is no room."""
    first, pairs, room = books
    count = place(site.how, site.free, site.size, gpus, room[0], room[1])
    first[row] = NONE
    for at in range(count):
        pair = first[-1]
        first[-1] = pairs[2, pair]
        pairs[0, pair], pairs[1, pair], pairs[2, pair] = room[0, at], room[1, at], first[row]
        first[row] = pair
        site.free[room[0, at]] -= room[1, at]
    return count


@compiled
def give_back(site: Site, books: Grants, row: int) -> None:
    """Take all GPUs of job *row* back."""
    first, pairs, _ = books
    pair = first[row]
    while pair != NONE:
        site.free[pairs[0, pair]] += pairs[1, pair]
        after = pairs[2, pair]
        pairs[2, pair] = first[-1]
        first[-1] = pair
        pair = after
    first[row] = NONE
