"""Links: the bandwidth between the GPUs of a node, and the free GPUs that serve a job best. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

MOST_SETS = 2000
"""Sets of GPUs that are compared; where there are more, one set grows from each GPU."""


LINK_GBPS, OTHER_GBPS = 25.0, 12.0
"""Bandwidth of one NVLink (V100, A100, H100) and of a pair without one, in GB/s one way."""


@dataclass(frozen=True)
class GpuLinks:
    """The bandwidth between the GPUs of one node, in GB/s one way; row and column are their numbers."""

    gbps: tuple[tuple[float, ...], ...]

    @classmethod
    def of_counts(
        cls, counts: Sequence[Sequence[int]], link_gbps: float = LINK_GBPS, other_gbps: float = OTHER_GBPS
    ) -> GpuLinks:
        """Return the bandwidth of pairs by their numbers of links; *other_gbps* is that of a pair without one."""
        return cls(tuple(tuple(links * link_gbps if links > 0 else other_gbps for links in row) for row in counts))

    def mean_gbps(self, gpus: Sequence[int]) -> float:
        """Return the mean bandwidth over the pairs of *gpus*; NaN for fewer than two."""
        pairs = len(gpus) * (len(gpus) - 1) // 2
        return self.total_gbps(gpus) / pairs if pairs else math.nan

    def total_gbps(self, gpus: Sequence[int]) -> float:
        """Return the sum of the bandwidth over the pairs of *gpus*."""
        return sum(self.gbps[one][other] for one, other in combinations(gpus, 2))

    def best(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        """Choose *count* of the *free* GPUs: those with most bandwidth, then those that leave most, then the lowest.

        A job of one GPU therefore takes the one whose links the others miss least.
        """
        return _best(self, tuple(sorted(free)), count)


def lowest(free: Sequence[int], count: int) -> tuple[int, ...]:
    """Choose the *count* lowest of the *free* GPUs, as Slurm does."""
    return tuple(sorted(free)[:count])


@lru_cache(maxsize=65536)
def _best(links: GpuLinks, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    if count >= len(free):
        return free[:count]
    if math.comb(len(free), count) > MOST_SETS:
        return max((_grown(links, free, count, first) for first in free), key=links.total_gbps)

    def worth(chosen: tuple[int, ...]) -> tuple[float, float]:
        rest = [gpu for gpu in free if gpu not in chosen]
        return links.total_gbps(chosen), links.total_gbps(rest)

    return max(combinations(free, count), key=worth)


def _grown(links: GpuLinks, free: tuple[int, ...], count: int, first: int) -> tuple[int, ...]:
    """Grow a set from its *first* GPU, each time by the one with most bandwidth to those that it has."""
    chosen = [first]
    while len(chosen) < count:
        left = [gpu for gpu in free if gpu not in chosen]
        chosen.append(max(left, key=lambda gpu: sum(links.gbps[gpu][one] for one in chosen)))
    return tuple(sorted(chosen))
