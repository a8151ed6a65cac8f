"""A store for a simulated daemon: it holds what decisions read back, in memory, and drops the records."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Self

from ..cluster.gpu_usage import Use
from ..cluster.job_kind import kind_of
from ..cluster.records.profiles import NodeProfile
from ..db.pending_writes import PendingWrites
from ..db.records.gpu_usage import Measured
from ..db.store import Unchanged


class VolatileStore(Unchanged):
    """A store that writes no tables. Profiles of runs are readable once their end is known, as in a database.

    A cycle reads intents, promises and jobs back only when its process begins, so that these can be dropped.
    """

    @classmethod
    def blank(cls) -> Self:
        """Return an empty store."""
        store = cls("sqlite://")
        store.upgrade()
        return store

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._ends: dict[tuple[int, int], tuple[float, str]] = {}
        self._profiles: list[NodeProfile] = []

    def save(self, cluster: str, news: PendingWrites) -> None:
        """Note the ends of runs."""
        for table in news.outcomes:
            runs = zip(table.job_id.tolist(), table.restart.tolist(), strict=True)
            kinds = map(kind_of, table.user, table.name)
            self._ends.update(zip(runs, zip(table.ended_s.tolist(), kinds, strict=True), strict=True))

    def add_profiles(self, cluster: str, news: Iterable[NodeProfile]) -> None:
        """Hold profiles of runs."""
        for profile in news:
            insort(self._profiles, profile, key=_end_s)

    def measured(self, cluster: str, since_s: float) -> list[Measured]:
        """Return the runs measured since *since_s* whose end is known, oldest end first."""
        recent = self._profiles[bisect_left(self._profiles, since_s, key=_end_s) :]
        found = [self._measured(profile) for profile in recent if (profile.job_id, profile.restart) in self._ends]
        return sorted(found, key=lambda run: (run[0][2], run[0]))

    def _measured(self, profile: NodeProfile) -> Measured:
        ended_s, kind = self._ends[profile.job_id, profile.restart]
        memory_mib = profile.memory_mib / profile.gpus
        use = Use(profile.start_s, profile.end_s, profile.gpu_util, profile.memory_util, memory_mib, False)
        return (profile.job_id, profile.restart, int(ended_s)), kind, use


def _end_s(profile: NodeProfile) -> int:
    return profile.end_s
