"""Every run of every job with its GPUs, for loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import borrowing
from ...policies.selection.resources import GPUS, NEXT, NODE, NONE, Held


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


def no_segments(many: int = 0, pairs: int = 0) -> Segments:
    """Return an empty log with room for *many* segments with *pairs* pairs in all; without room it stays empty."""
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


def larger(log: Segments) -> Segments:
    """Return a log with twice the room."""
    larger = no_segments(2 * len(log.row), 2 * len(log.node))
    for before, after in zip(log, larger, strict=True):
        after[: len(before)] = before
    return larger


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


@borrowing
def has_room(log: Segments, runs: int, pairs: int) -> bool:
    """Return True if a log has room for so many more *runs* and *pairs*, or for none at all."""
    if not len(log.row):
        return True
    return bool(log.many[0] + runs <= len(log.row) and log.pairs[0] + pairs <= len(log.node))


@borrowing
def note_run(log: Segments, held: Held, row: int, start_s: float, end_s: float) -> None:
    """Log that a job had its GPUs from *start_s* to *end_s*; nothing in a log without room."""
    if not len(log.row):
        return
    at, place, spot = log.many[0], log.pairs[0], held.first[row]
    log.row[at], log.start_s[at], log.end_s[at], log.first[at] = row, start_s, end_s, place
    while spot != NONE:
        log.node[place], log.gpus[place] = held.links[NODE, spot], held.links[GPUS, spot]
        place += 1
        spot = held.links[NEXT, spot]
    log.many[0], log.pairs[0] = at + 1, place
