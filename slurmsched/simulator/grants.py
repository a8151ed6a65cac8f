"""Which GPUs each running job has: (node, GPUs) pairs in a linked list, for loops that compile."""

from __future__ import annotations

from ..cluster.columns import IntArray
from ..policies.compiled import compiled
from ..policies.placement import place

NONE = -1


@compiled
def grant(
    how: int, free: IntArray, size: int, gpus: int, row: int, first: IntArray, pairs: IntArray, room: IntArray
) -> int:
    """Give job *row* its GPUs and return how many nodes they are on; 0 and nothing changed where there is no room.

    ``first[row]`` becomes the job's first pair. *pairs* has three lines: node, GPUs, next pair; unused pairs are
    chained from ``first[-1]``. *room* has two lines of one column per node for *place* to write in.
    """
    count = place(how, free, size, gpus, room[0], room[1])
    first[row] = NONE
    for at in range(count):
        pair = first[-1]
        first[-1] = pairs[2, pair]
        pairs[0, pair], pairs[1, pair], pairs[2, pair] = room[0, at], room[1, at], first[row]
        first[row] = pair
        free[room[0, at]] -= room[1, at]
    return count


@compiled
def give_back(free: IntArray, row: int, first: IntArray, pairs: IntArray) -> None:
    """Take all GPUs of job *row* back."""
    pair = first[row]
    while pair != NONE:
        free[pairs[0, pair]] += pairs[1, pair]
        after = pairs[2, pair]
        pairs[2, pair] = first[-1]
        first[-1] = pair
        pair = after
    first[row] = NONE
