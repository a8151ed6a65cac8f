"""A store for a simulated daemon: it holds what decisions read back, in memory, and drops the records."""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

from ..cluster.actions.intent import Intent
from ..cluster.gpu_usage import Use
from ..cluster.job_kind import kind_of
from ..cluster.job_record import JobRecord, Phase, outcomes_of
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.profiles import NodeProfile
from ..cluster.records.promises import NO_PROMISES, PromiseTable
from ..db.pending_writes import PendingWrites
from ..db.records.gpu_usage import Measured, Run, run_key
from ..db.records.pause import Control
from ..db.store import Unchanged


class VolatileStore(Unchanged):
    """A store that writes no tables. Profiles of runs are readable once it has heard of the run, as in a database.

    A cycle reads intents, promises and jobs back only when its process begins, so that these can be dropped: where it
    begins nothing is there, and nobody pauses it, which needs no database to be said.
    """

    @classmethod
    def blank(cls) -> Self:
        """Return an empty store."""
        store = cls("sqlite://")
        with _connection(store) as connection:
            connection.deserialize(_tables())
        return store

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._runs: dict[tuple[int, int], tuple[Run, str]] = {}  # key and kind by job and restart
        self._profiles: list[NodeProfile] = []

    def save(self, cluster: str, news: PendingWrites) -> None:
        """Note the runs that began or ended."""
        for job in news.jobs.values():
            if job is not None and job.phase is Phase.RUNNING:
                self._note(kind_of(job.user, job.name), job.job_id, job.restarts, job.first_submit_s)
        for table in news.outcomes:
            columns = (table.job_id.tolist(), table.restart.tolist(), table.first_submit_s.tolist())
            for kind, *run in zip(map(kind_of, table.user, table.name), *columns, strict=True):
                self._note(kind, *run)

    def jobs(self, cluster: str) -> list[JobRecord]:
        """Return no job."""
        return []

    def intents(self, cluster: str, refused_since_s: float, now_s: float = math.inf) -> list[Intent]:
        """Return no intent."""
        return []

    def interactive_runs(self, cluster: str, since_s: float) -> OutcomeTable:
        """Return no run."""
        return outcomes_of(())

    def last_number(self, cluster: str) -> int:
        """Return 0: there was no cycle."""
        return 0

    def latest_decision(self, cluster: str | None = None) -> None:
        """Return no cycle."""

    def promises(self, cluster: str, since_s: float) -> PromiseTable:
        """Return no promise."""
        return NO_PROMISES

    def control(self, cluster: str, now_s: float) -> Control:
        """Return a switch that pauses nothing."""
        return Control()

    def _note(self, kind: str, job_id: int, restart: int, first_submit_s: float) -> None:
        self._runs[job_id, restart] = run_key(job_id, restart, first_submit_s), kind

    def add_profiles(self, cluster: str, news: Iterable[NodeProfile]) -> None:
        """Hold profiles of runs."""
        for profile in news:
            insort(self._profiles, profile, key=_end_s)

    def measured(self, cluster: str, since_s: float) -> list[Measured]:
        """Return the known runs measured since *since_s*, oldest measurement first."""
        recent = self._profiles[bisect_left(self._profiles, since_s, key=_end_s) :]
        return [self._measured(profile) for profile in recent if (profile.job_id, profile.restart) in self._runs]

    def _measured(self, profile: NodeProfile) -> Measured:
        run, kind = self._runs[profile.job_id, profile.restart]
        memory_mib = profile.memory_mib / profile.gpus
        use = Use(profile.start_s, profile.end_s, profile.gpu_util, profile.memory_util, memory_mib, False)
        return run, kind, use


@cache
def _tables() -> bytes:
    """Return a database with empty tables: the upgrades that make them take longer than a short simulation."""
    store = Unchanged("sqlite://")
    store.upgrade()
    with _connection(store) as connection:
        return connection.serialize()


@contextmanager
def _connection(store: Unchanged) -> Iterator[sqlite3.Connection]:
    """Open the one connection of a database in memory."""
    with store.database.connect_alone("making tables in memory") as connection:
        driver: Any = connection.connection.driver_connection
        yield driver


def _end_s(profile: NodeProfile) -> int:
    return profile.end_s
