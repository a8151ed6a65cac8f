"""A cache of the measured GPU usage of runs, ended or not, for the jobs that wait and run now."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields

from sqlalchemy import Connection, and_, select

from ...cluster.filling import NOTHING, Knowing, NewColumns
from ...cluster.gpu_usage import LAST, Use, mean_use, use_columns
from ...cluster.job_kind import kind_of
from ...cluster.job_record import Phase
from ...cluster.records.profiles import NodeProfile
from ...cluster.state import ClusterState
from ..tables import jobs, outcomes, profiles

MOST = 20_000  #: records read at once, the newest; also the most jobs, and the most kinds, in the cache
EVERY_S = 60.0
LATE_S = 3600.0  #: the greatest delay of a record after its job's end; later ones are read after a restart
SAME_S = 60.0  #: the greatest difference between the clocks of a node and of the controller

_NAMES = tuple(f.name for f in fields(NodeProfile))

Run = tuple[int, int, int]  #: job, restart, whole second of the first submit
Measured = tuple[Run, str, Use]  #: a run, its kind and its GPU usage


def run_key(job_id: int, restart: int, first_submit_s: float) -> Run:
    """Return the key of a run, the same before its end and after."""
    return job_id, restart, int(first_submit_s) if math.isfinite(first_submit_s) else 0


class RecentUsage(Knowing):
    """The GPU usage of recently measured runs, by job and by kind of job; bounded in number."""

    def __init__(self) -> None:
        self._by_job: dict[int, Use] = {}
        self._by_kind: dict[str, Use] = {}
        self._runs: dict[str, dict[Run, Use]] = {}
        self._read_s = -math.inf

    def since_s(self, now_s: float) -> float:
        """Return the start of the period that the next read has to cover."""
        read_s = min(self._read_s, now_s)  # the clock may have been set back
        return read_s - LATE_S

    def learn(self, runs: Iterable[Measured], now_s: float) -> None:
        """Add *runs* read at *now_s*, oldest first; a later reading of a run replaces an earlier one."""
        for run, kind, use in runs:
            self._by_job.pop(run[0], None)
            self._by_job[run[0]] = use
            same = self._runs.pop(kind, {})
            same[run] = use
            newest = sorted(same, key=lambda key: same[key].end_s)[-LAST:]
            self._runs[kind] = {key: same[key] for key in newest}
            self._by_kind[kind] = mean_use(list(self._runs[kind].values()))
        for job_id in list(self._by_job)[: max(0, len(self._by_job) - MOST)]:
            del self._by_job[job_id]
        for kind in list(self._runs)[: max(0, len(self._runs) - MOST)]:
            del self._runs[kind], self._by_kind[kind]
        self._read_s = now_s

    def columns(self, state: ClusterState) -> NewColumns:
        """Return the known GPU usage of pending and running jobs."""
        if not self._by_kind:
            return NOTHING
        tables = {"pending": state.pending, "running": state.running}
        return {name: use_columns(jobs, self._by_job, self._by_kind) for name, jobs in tables.items()}


def load_measured(connection: Connection, cluster: str, since_s: float) -> list[Measured]:
    """Return the newest runs measured since *since_s* that have ended or still go on; at most MOST records.

    The oldest measurement comes first.
    """
    newest = select(*(profiles.c[name] for name in _NAMES)).where(profiles.c.cluster == cluster)
    if math.isfinite(since_s):
        newest = newest.where(profiles.c.end_s >= int(since_s))
    records = newest.order_by(profiles.c.end_s.desc()).limit(MOST).subquery()
    # Ids restart on a new controller: the measured run is the one at that time.
    ended = and_(
        outcomes.c.job_id == records.c.job_id,
        outcomes.c.restart == records.c.restart,
        outcomes.c.ended_s >= records.c.start_s - SAME_S,
    )
    running = and_(
        jobs.c.unit == records.c.job_id, jobs.c.restarts == records.c.restart, jobs.c.phase == int(Phase.RUNNING)
    )
    runs: dict[tuple[Run, str], list[NodeProfile]] = {}
    for table, same in ((outcomes, ended), (jobs, running)):
        query = (
            select(table.c.user, table.c.name, table.c.first_submit_s, *(records.c[name] for name in _NAMES))
            .select_from(records.join(table, same))
            .where(table.c.cluster == cluster, table.c.started_s <= records.c.start_s + SAME_S)
            .order_by(records.c.job_id, records.c.restart, records.c.node)
        )
        for user, name, first_submit_s, *values in connection.execute(query):
            profile = NodeProfile(*values)
            run = run_key(profile.job_id, profile.restart, first_submit_s)
            runs.setdefault((run, kind_of(user, name)), []).append(profile)
    found = [(run, kind, _use(rows)) for (run, kind), rows in runs.items()]
    return sorted(found, key=lambda measured: (measured[2].end_s, measured[0]))


def _use(rows: list[NodeProfile]) -> Use:
    """Return the usage of a run from the records of its nodes."""
    return mean_use(
        [
            Use(row.start_s, row.end_s, row.gpu_util, row.memory_util, row.memory_mib / row.gpus, row.unstable == 1.0)
            for row in rows
        ]
    )
