"""Foreseen requests: the GPU time that smaller jobs with deadlines are expected to ask for, by those of the last day.

A large job that was promised its deadline first takes GPUs for days, and every small one that comes then is refused. In
a crowd that breaks no promise, but most deadlines are of small jobs. So a promise leaves room for them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.records.promises import PromiseState, PromiseTable

LEAST_S = 3_600.0
"""Least time over which requests are counted: a burst of the first minutes is no load."""


class ForeseenRequests:
    """The load of the requests *asked* in the last *memory_s*, as a share of *gpus*, by the size of the jobs.

    A size is in GPU-seconds. Requests that were refused for another reason than those in *wants* do not count.
    """

    def __init__(self, asked: PromiseTable, gpus: int, now_s: float, memory_s: float, wants: tuple[str, ...]) -> None:
        self._asked, self._gpus, self._now_s, self._memory_s, self._wants = asked, gpus, now_s, memory_s, wants

    def below(self, size: float) -> float:
        """Return the share of the GPUs that jobs smaller than *size* ask for, at most 1."""
        sizes, loads = self._loads
        return float(min(1.0, loads[np.searchsorted(sizes, size)]))

    @cached_property
    def _loads(self) -> tuple[FloatArray, FloatArray]:
        """The sizes of the jobs, rising, and the load of those before each; the last load is that of all."""
        asked = self._asked
        wanted = asked.reason.map([reason in self._wants for reason in asked.reason.names], np.bool_)
        counts = np.where(asked.state == PromiseState.REFUSED, wanted, asked.state != PromiseState.WITHDRAWN)
        recent = asked.take(counts & (asked.asked_s > self._now_s - self._memory_s) & np.isfinite(asked.needs_s))
        _, once = np.unique(recent.job_id, return_index=True)  # a job that was refused may have asked again
        sizes = np.sort((recent.gpus * recent.needs_s)[once])
        since_s = max(self._now_s - float(recent.asked_s.min(initial=self._now_s)), LEAST_S)
        return sizes, np.concatenate([[0.0], np.cumsum(sizes)]) / (max(self._gpus, 1) * since_s)
