"""The type of GPU on which each pending job ends soonest, where jobs never yield (Gavel at their start). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.ties import in_ms


class Ends(NamedTuple):
    """When each job would start and end on each type of GPU, in seconds from now; infinite where it cannot."""

    start_s: FloatArray  #: per job and type
    end_s: FloatArray


def earliest_ends(
    gpus: IntArray, tasks: IntArray, seconds: FloatArray, fixed: IntArray, free_s: Sequence[FloatArray]
) -> Ends:
    """Plan jobs in their order, each on the type where it ends first, behind those before it.

    A job is a number of *tasks* of so many *gpus*, and starts with the first one. *seconds* are the runtimes per job
    and type, infinite where a job cannot run. *fixed* is the type that a job takes in any case, -1 for the one where it
    ends first. *free_s* are, for each type, the seconds until each of its GPUs is free. Whether GPUs lie on the same
    nodes is not considered.
    """
    free = [np.sort(each) for each in free_s]
    start_s = np.full(seconds.shape, np.inf)
    for row, (wanted, many, takes) in enumerate(zip(gpus.tolist(), tasks.tolist(), fixed.tolist(), strict=True)):
        for number, each in enumerate(free):
            if 0 < wanted <= len(each):
                start_s[row, number] = each[wanted - 1]
        ends_s = start_s[row] + seconds[row]
        number = takes if takes >= 0 else int(np.argmin(in_ms(ends_s)))
        if np.isfinite(ends_s[number]):
            free[number] = _taken(free[number], min(wanted * many, len(free[number])), float(ends_s[number]))
    return Ends(start_s, start_s + seconds)


def _taken(free_s: FloatArray, gpus: int, until_s: float) -> FloatArray:
    """Return when GPUs are free after the first *gpus* of them were taken until *until_s*."""
    rest = free_s[gpus:]
    place = int(np.searchsorted(rest, until_s))
    return np.concatenate([rest[:place], np.full(gpus, until_s), rest[place:]])
