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
    """The load of the requests in *table* of the last *memory_s*, as a share of *gpus*, by the size of the jobs.

    A size is in GPU-seconds. Requests that were refused for another reason than those in *wants* do not count. Those of
    one user count for *user_share* at most, but of users *exempt* from quotas: nobody keeps others out by asking alone.
    Which nodes they asked for is not known: they say nothing to the jobs *confined*, which may not run on all nodes.
    """

    def __init__(
        self,
        table: PromiseTable,
        gpus: int,
        now_s: float,
        memory_s: float,
        wants: tuple[str, ...],
        user_share: float = 1.0,
        exempt: tuple[str, ...] = (),
        confined: frozenset[int] = frozenset(),
    ) -> None:
        self._table, self._gpus, self._now_s, self._memory_s, self._wants = table, gpus, now_s, memory_s, wants
        self._user_share, self._exempt, self.confined = user_share, exempt, confined

    def asked(self, job_id: int) -> bool:
        """Return whether a job has asked before."""
        return bool((self._table.job_id == job_id).any())

    def below(self, size: float) -> float:
        """Return the share of the GPUs that jobs smaller than *size* ask for, at most 1."""
        sizes, loads = self._loads
        return float(min(1.0, loads[np.searchsorted(sizes, size)]))

    @cached_property
    def _loads(self) -> tuple[FloatArray, FloatArray]:
        """The sizes of the jobs, rising, and the load of those before each; the last load is that of all."""
        table = self._table
        wanted = table.reason.map([reason in self._wants for reason in table.reason.names], np.bool_)
        counts = np.where(table.state == PromiseState.REFUSED, wanted, table.state != PromiseState.WITHDRAWN)
        recent = table.take(counts & (table.asked_s > self._now_s - self._memory_s) & np.isfinite(table.needs_s))
        _, once = np.unique(recent.job_id, return_index=True)  # a job that was refused may have asked again
        recent = recent.take(once)
        since_s = max(self._now_s - float(recent.asked_s.min(initial=self._now_s)), LEAST_S)
        recent = recent.take(np.argsort(recent.gpus * recent.needs_s, kind="stable"))
        sizes, in_all = recent.gpus * recent.needs_s, max(self._gpus, 1) * since_s
        counted = sizes.astype(np.float64)
        if self._user_share < 1:
            exempt = recent.user.map([user in self._exempt for user in recent.user.names], np.bool_)
            for code in np.unique(recent.user.codes[~exempt]).tolist():
                mine, most = recent.user.codes == code, self._user_share * in_all
                counted[mine] = np.diff(np.minimum(np.cumsum(sizes[mine]), most), prepend=0.0)
        return sizes, np.concatenate([[0.0], np.cumsum(counted)]) / in_all
