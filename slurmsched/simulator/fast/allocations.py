"""The GPUs of each running job: (node, GPUs) pairs in linked lists, for loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import borrowing, compiled
from ...policies.placement import place

NONE = -1


class PoolNodes(NamedTuple):
    """The nodes, and the placement of each job on them."""

    free: IntArray  #: GPUs per node
    size: int  #: GPUs of a whole node
    how: IntArray  #: placement per job, as ``place`` takes it


class Segments(NamedTuple):
    """Every run of every job, in the order of ends: start, end, and the GPUs it had.

    The pairs of a segment are those from its ``first`` on, up to the next one's. Scalars are arrays of one.
    """

    row: IntArray
    start_s: FloatArray
    end_s: FloatArray
    first: IntArray
    node: IntArray  #: per pair
    gpus: IntArray  #: per pair
    many: IntArray
    pairs: IntArray


class Allocations(NamedTuple):
    """The allocations of jobs: ``first[row]`` is a job's first pair; ``first[-1]`` heads the free list."""

    first: IntArray
    pairs: IntArray  #: three lines: node, GPUs, next pair
    room: IntArray  #: two lines, one column per node, for ``place`` to write in
    unused: IntArray  #: of one: the number of free GPUs


def no_segments(many: int = 0, pairs: int = 0) -> Segments:
    """Return an empty log with room for *many* segments with *pairs* pairs in all."""
    return Segments(
        np.zeros(many, np.int64),
        np.zeros(many),
        np.zeros(many),
        np.zeros(many, np.int64),
        np.zeros(pairs, np.int64),
        np.zeros(pairs, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )


def closed(log: Segments) -> Segments:
    """Return the log without its unused room."""
    many, pairs = int(log.many[0]), int(log.pairs[0])
    return log._replace(
        row=log.row[:many],
        start_s=log.start_s[:many],
        end_s=log.end_s[:many],
        first=log.first[:many],
        node=log.node[:pairs],
        gpus=log.gpus[:pairs],
    )


@compiled
def no_grants(count: int, free: IntArray) -> Allocations:
    """Return empty allocations for *count* jobs: at most one pair per GPU is ever in use."""
    total = free.sum()
    first = np.full(count + 1, NONE, np.int64)
    pairs = np.empty((3, total), np.int64)
    pairs[2] = np.arange(1, total + 1)
    pairs[2, total - 1] = NONE
    first[-1] = 0
    return Allocations(first, pairs, np.empty((2, len(free)), np.int64), np.full(1, total, np.int64))


@borrowing
def grant(site: PoolNodes, books: Allocations, row: int, gpus: int) -> int:
    """Allocate GPUs to job *row*; return the number of nodes, 0 and nothing changed where there is no room."""
    if gpus > books.unused[0]:
        return 0
    count = place(site.how[row], site.free, site.size, gpus, books.room[0], books.room[1])
    take(site, books, row, gpus, count)
    return int(count)


@borrowing
def take(site: PoolNodes, books: Allocations, row: int, gpus: int, count: int) -> None:
    """Allocate the *count* nodes found in ``books.room`` to job *row*."""
    first, pairs, room = books.first, books.pairs, books.room
    first[row] = NONE
    for at in range(count):
        pair = first[-1]
        first[-1] = pairs[2, pair]
        pairs[0, pair], pairs[1, pair], pairs[2, pair] = room[0, at], room[1, at], first[row]
        first[row] = pair
        site.free[room[0, at]] -= room[1, at]
    if count:
        books.unused[0] -= gpus


@borrowing
def give_back(site: PoolNodes, books: Allocations, row: int) -> None:
    """Free all GPUs of job *row*."""
    first, pairs = books.first, books.pairs
    pair = first[row]
    while pair != NONE:
        site.free[pairs[0, pair]] += pairs[1, pair]
        books.unused[0] += pairs[1, pair]
        after = pairs[2, pair]
        pairs[2, pair] = first[-1]
        first[-1] = pair
        pair = after
    first[row] = NONE


@borrowing
def note(log: Segments, books: Allocations, row: int, start_s: float, end_s: float) -> None:
    """Log that job *row* had its GPUs from *start_s* to *end_s*. Do not call it where the log has no room."""
    at, spot = log.many[0], log.pairs[0]
    log.row[at], log.start_s[at], log.end_s[at], log.first[at] = row, start_s, end_s, spot
    pair = books.first[row]
    while pair != NONE:
        log.node[spot], log.gpus[spot] = books.pairs[0, pair], books.pairs[1, pair]
        spot += 1
        pair = books.pairs[2, pair]
    log.many[0], log.pairs[0] = at + 1, spot


def validate(site: PoolNodes, books: Allocations, capacity: IntArray) -> None:
    """Raise AssertionError where the lists of pairs are broken, or nodes of *capacity* have not what jobs leave."""
    after, uses = books.pairs[2], np.zeros(books.pairs.shape[1], dtype=np.int64)
    assert ((after >= NONE) & (after < len(after))).all(), "a pair of an allocation leads nowhere"
    spots = books.first[:-1][books.first[:-1] != NONE]
    while len(spots):
        np.add.at(uses, spots, 1)
        assert uses.max() == 1, "a pair is in two allocations"
        spots = after[spots][after[spots] != NONE]
    mine = uses > 0
    spot = int(books.first[-1])
    while spot != NONE:
        assert not uses[spot], "a spare pair is in use"
        uses[spot], spot = 1, int(after[spot])
    assert uses.all(), "a pair is neither in use nor spare"
    assert (books.pairs[1, mine] >= 1).all(), "a job holds a node without a GPU of it"
    assert (site.free >= 0).all(), "a node gives more GPUs than it has"
    held = np.bincount(books.pairs[0, mine], weights=books.pairs[1, mine], minlength=len(capacity))
    assert (site.free + held == capacity).all(), "free and held GPUs are not those of a node"
    assert books.unused[0] == site.free.sum(), "the number of free GPUs is not their sum"
