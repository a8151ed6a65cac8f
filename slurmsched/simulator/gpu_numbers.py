"""The numbers of the GPUs that each run had: a node's choice among its free GPUs, replayed in the order of starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from ..policies.contract import PLACEMENTS, Placement
from ..policies.links import lowest
from .cluster_spec import ClusterSpec
from .engine.segments import Segments

Choose = Callable[[int, Sequence[int], int], tuple[int, ...]]
"""A function from a node, its free GPUs and the number that a job takes there, to the GPUs that it gets."""


def choice_of(placement: str, fleet: ClusterSpec) -> Choose:
    """Return the choice of *placement*: by links where it says so and the node has any, else the lowest free GPUs."""
    part: Placement = PLACEMENTS.find(placement)

    def choose(node: int, free: Sequence[int], count: int) -> tuple[int, ...]:
        links = fleet.links[node] if part.links and fleet.links else None
        return lowest(free, count) if links is None else links.best(free, count)

    return choose


def gpu_numbers(runs: Segments, gpus: Sequence[int], choose: Choose) -> list[tuple[int, ...]]:
    """Return the GPUs of each pair of *runs*; *gpus* are those of each node.

    The choice changes no time: every free GPU of a node serves. At one instant ends come first. Runs without duration
    get none.
    """
    free = [set(range(count)) for count in gpus]
    numbers: list[tuple[int, ...]] = [()] * len(runs.node)
    after = np.append(runs.first[1:], len(runs.node))
    ends: list[tuple[float, int]] = []
    for run in np.lexsort((runs.row, runs.start_s)).tolist():
        while ends and ends[0][0] <= runs.start_s[run]:
            over = heappop(ends)[1]
            for pair in range(runs.first[over], after[over]):
                free[runs.node[pair]].update(numbers[pair])
        if runs.end_s[run] <= runs.start_s[run]:
            continue
        for pair in range(runs.first[run], after[run]):
            node = int(runs.node[pair])
            numbers[pair] = choose(node, sorted(free[node]), int(runs.gpus[pair]))
            free[node].difference_update(numbers[pair])
        heappush(ends, (float(runs.end_s[run]), run))
    return numbers
