"""One observation of the cluster, as the lives of actions look at it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands that name actions start without numpy
    from ..state import ClusterState


class Observation:
    """An observation of the cluster with its rows by job; *requeued* are the jobs that were just queued again."""

    def __init__(self, state: ClusterState, requeued: Collection[int], now_s: float) -> None:
        self.pending, self.running, self.partitions = state.pending, state.running, state.partitions
        self.requeued, self.now_s = frozenset(requeued), now_s
        self._pending_row = {job: row for row, job in enumerate(state.pending.job_id.tolist())}
        self._running_row = {job: row for row, job in enumerate(state.running.job_id.tolist())}

    def waiting(self, job_id: int) -> int | None:
        """Return the row of a pending job; None if it is not pending."""
        return self._pending_row.get(job_id)

    def running_row(self, job_id: int) -> int | None:
        """Return the row of a running or suspended job; None if it is neither."""
        return self._running_row.get(job_id)

    def shows(self, job_id: int) -> bool:
        """Return True if Slurm shows the job as pending, running or suspended."""
        return job_id in self._pending_row or job_id in self._running_row
