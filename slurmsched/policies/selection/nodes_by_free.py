"""Nodes filed by how many GPUs are free on them, for loops that compile: a search passes only nodes with room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import IntArray
from ..compiled import borrowing

NONE = -1
WORD = 32  #: nodes in a word of bits
FEW_NODES = 8  #: so many are passed as soon as they are filed
MANY_GPUS = 64  #: nodes with more of them are not filed


class NodesByFree(NamedTuple):
    """The nodes with each number of free GPUs, as bits in the order of nodes."""

    words: IntArray  #: [GPUs, word]; without lines where nodes are not filed
    many: IntArray  #: [GPUs] the number of nodes
    gpus: IntArray  #: per node: the number by which it is filed


def filed_by(free_gpus: IntArray, size: int) -> NodesByFree:
    """File nodes of *size* GPUs by *free_gpus*; few nodes, and those with very many GPUs, are not filed."""
    nodes = len(free_gpus)
    lines = size + 1 if nodes > FEW_NODES and 0 < size <= MANY_GPUS else 0
    by_free = NodesByFree(
        np.zeros((lines, nodes // WORD + 1), dtype=np.int64), np.zeros(lines, dtype=np.int64), _nowhere(nodes)
    )
    for node, gpus in enumerate(np.maximum(free_gpus, 0).tolist() if lines else []):
        file_node(by_free, node, gpus)
    return by_free


def _nowhere(nodes: int) -> IntArray:
    return np.full(nodes, NONE, dtype=np.int64)


@borrowing
def file_node(by_free: NodesByFree, node: int, gpus: int) -> None:
    """File a node by the number of GPUs that are free on it now."""
    before = by_free.gpus[node]
    if before == gpus or not len(by_free.words):
        return
    bit = 1 << (node % WORD)
    if before != NONE:
        by_free.words[before, node // WORD] -= bit
        by_free.many[before] -= 1
    by_free.words[gpus, node // WORD] += bit
    by_free.many[gpus] += 1
    by_free.gpus[node] = gpus


@borrowing
def next_with(by_free: NodesByFree, gpus: int, node: int) -> int:
    """Return the first node from *node* on that has just so many free *gpus*; NONE where there is none."""
    if not by_free.many[gpus]:
        return NONE
    at, skipped = node // WORD, node % WORD
    word = by_free.words[gpus, at] >> skipped << skipped
    while not word:
        at += 1
        if at == by_free.words.shape[1]:
            return NONE
        word = by_free.words[gpus, at]
    return int(at * WORD + _lowest_bit(word))


@borrowing
def next_with_at_least(by_free: NodesByFree, gpus: int, node: int) -> int:
    """Return the first node from *node* on that has so many free *gpus* or more; NONE where there is none."""
    at, skipped = node // WORD, node % WORD
    while at < by_free.words.shape[1]:
        word = 0
        for line in range(gpus, len(by_free.many)):
            if by_free.many[line]:
                word |= by_free.words[line, at]
        word = word >> skipped << skipped
        if word:
            return int(at * WORD + _lowest_bit(word))
        at, skipped = at + 1, 0
    return NONE


@borrowing
def _lowest_bit(word: int) -> int:
    """Return the place of the lowest bit of a word that has one."""
    place = 0
    for width in (16, 8, 4, 2, 1):
        if not word & ((1 << width) - 1):
            word >>= width
            place += width
    return place


def validate(by_free: NodesByFree, free_gpus: IntArray) -> None:
    """Raise AssertionError where nodes are filed by other numbers than those of *free_gpus*."""
    if not len(by_free.words):
        return
    node = np.arange(len(free_gpus))
    bits = by_free.words[:, node // WORD] >> (node % WORD) & 1
    at = np.maximum(free_gpus, 0)
    assert (by_free.gpus == at).all(), "a node is filed by GPUs that it lacks"
    assert (bits.sum(axis=0) == 1).all(), "a node is filed twice"
    assert (bits[at, node] == 1).all(), "a node is filed by GPUs that it lacks"
    assert (by_free.many == bits.sum(axis=1)).all(), "the nodes filed by a number of GPUs are miscounted"
