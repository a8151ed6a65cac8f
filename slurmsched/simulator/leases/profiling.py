"""Profiling before the rest: every new job runs for a while on a few GPUs set apart for that (section 3.2)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray


class ProfilingTimes(NamedTuple):
    """What became of jobs while they were profiled."""

    begins_s: FloatArray
    ready_s: FloatArray  #: when each is known, in the order of the jobs
    end_s: FloatArray  #: when it would end if it went on there
    ended: BoolArray  #: ended before that, and never comes to the rest of the cluster
    done_s: FloatArray  #: of their work, at the speed they have with all their GPUs
    lent_gpus: IntArray  #: GPUs set apart in each interval since 0


@dataclass(frozen=True)
class Profiling:
    """How jobs are profiled. On fewer GPUs than it asks for a job is taken to be slower in proportion."""

    profile_s: float = 300.0  #: T_profile
    every_s: float = 3_600.0  #: how often the GPUs set apart are counted anew
    node_gpus: int = 8
    nodes_most: int = 2  #: on so many nodes a job is profiled at most, however many it asks for
    headroom: float = 1.5  #: so many times the bound are set apart: at the bound itself queues grow without end
    fixed: int | None = None  #: always so many GPUs; None for as many as the last interval asked for

    def profiled(self, submit_s: FloatArray, runtime_s: FloatArray, gpus: IntArray, most: int) -> ProfilingTimes:
        """Jobs in the order of their submission, first come first served; at most *most* GPUs are set apart."""
        gpus_asked = np.minimum(gpus, self.nodes_most * self.node_gpus)
        alone_s = runtime_s * gpus / gpus_asked
        takes_s = np.minimum(alone_s, self.profile_s)
        lent_gpus = self.set_apart(submit_s, gpus_asked, most)
        begins_s = np.zeros(len(submit_s))
        ends: list[tuple[float, int]] = []
        now_s, used = 0.0, 0
        for row in range(len(submit_s)):
            now_s = max(now_s, float(submit_s[row]))
            while True:
                while ends and ends[0][0] <= now_s:
                    used -= heapq.heappop(ends)[1]
                if used + gpus_asked[row] <= lent_gpus[min(int(now_s // self.every_s), len(lent_gpus) - 1)]:
                    break
                # More GPUs may come at the next count before anybody ends; after the last one only ends count.
                counted_s = (now_s // self.every_s + 1) * self.every_s
                now_s = min(ends[0][0], counted_s) if ends else counted_s
            begins_s[row] = now_s
            used += int(gpus_asked[row])
            heapq.heappush(ends, (now_s + float(takes_s[row]), int(gpus_asked[row])))
        ended = alone_s <= self.profile_s
        ready_s = begins_s + self.profile_s
        return ProfilingTimes(
            begins_s, ready_s, begins_s + alone_s, ended, self.profile_s * gpus_asked / gpus, lent_gpus
        )

    def set_apart(self, submit_s: FloatArray, gpus_asked: IntArray, most: int) -> IntArray:
        """GPUs set apart in each interval: C >= lambda T, by what the interval before it asked for, in whole nodes.

        Never fewer than the widest job is profiled on, else it would wait for ever. ValueError where that is too many.
        """
        widest = int(gpus_asked.max(initial=1))
        if widest > most:
            raise ValueError(f"{widest} GPUs to profile one job: accepted are up to {most}")
        intervals = np.floor(submit_s / self.every_s).astype(np.int64)
        count = int(intervals.max(initial=0)) + 2
        gpus = np.bincount(intervals + 1, weights=gpus_asked, minlength=count)
        needed = np.ceil(self.headroom * gpus * self.profile_s / self.every_s / self.node_gpus) * self.node_gpus
        if self.fixed is not None:
            needed[:] = self.fixed
        lent_gpus: IntArray = np.clip(needed, widest, most).astype(np.int64)
        return lent_gpus
