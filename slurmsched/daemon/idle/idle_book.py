"""What nodes said last of GPUs that running jobs hold without a process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from threading import Lock

from ...cluster.jobs import JobTable
from ...cluster.records.profiles import NodeProfile
from ...errors import MemoryUnavailable
from ...explain.freed_queue import IdleHold

OfNode = tuple[int, int, str]  #: job, restart, node


class IdleBook:
    """The latest records of nodes about running jobs; *earlier* reads those from before this process from the database.

    Nodes deliver from any thread.
    """

    def __init__(self, earlier: Callable[[], Iterable[NodeProfile]] = tuple) -> None:
        self._earlier: Callable[[], Iterable[NodeProfile]] | None = earlier
        self._idle: dict[OfNode, NodeProfile] = {}
        self._lock = Lock()

    def take(self, profile: NodeProfile) -> None:
        """Note what a node said."""
        key = profile.job_id, profile.restart, profile.node
        with self._lock:
            before = self._idle.get(key)
            if before is not None and before.end_s > profile.end_s:
                return
            if profile.idle_gpus > 0:
                self._idle[key] = profile
            else:
                self._idle.pop(key, None)

    def holds(self, running: JobTable) -> list[IdleHold]:
        """Return the idle GPUs of *running* jobs, the longest first; forget those of jobs that have ended."""
        self._recall()
        rows = {
            (job, restart): row
            for row, (job, restart) in enumerate(zip(running.job_id.tolist(), running.restarts.tolist(), strict=True))
        }
        with self._lock:
            self._idle = {key: one for key, one in self._idle.items() if key[:2] in rows}
            told = list(self._idle.items())
        found: dict[int, IdleHold] = {}
        for key, one in told:
            row = rows[key[:2]]
            before = found.get(row)
            found[row] = IdleHold(
                key[0],
                running.user[row],
                running.account[row],
                running.partition[row],
                int(one.idle_gpus) + (before.gpus if before else 0),
                max(one.idle_since_s, before.since_s if before else -math.inf),
            )
        return sorted(found.values(), key=lambda hold: (hold.since_s, hold.job_id))

    def _recall(self) -> None:
        """Read once what nodes said before this process began."""
        if self._earlier is None:
            return
        try:
            earlier = list(self._earlier())
        except MemoryUnavailable:  # tried again at the next cycle
            return
        self._earlier = None
        with self._lock:
            for one in earlier:
                self._idle.setdefault((one.job_id, one.restart, one.node), one)
