"""Counts by the hour of what no other record holds: free GPUs, the effect of the order, calls and writes to Slurm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import numpy as np

from ..clock import Clock, Timer
from ..cluster.records.hours import HOUR_S
from ..cluster.stranded_gpus import LONGEST_S, StrandedBy
from ..cycle import CycleReport
from ..db.store import Store
from ..errors import SlurmschedError
from ..explain.impact import advice
from ..report.hour_names import (
    CALLS,
    COUNTED_S,
    EFFECT_JOBS,
    EFFECT_LATER,
    EFFECT_S,
    EFFECT_SAMPLES,
    EFFECT_SOONER,
    FREE_S,
    GPUS_S,
    MODE_CALLS,
    REFUSED,
    RPC_S,
    RPC_SPAN_S,
    RPCS,
    STRANDED_CPUS_S,
    STRANDED_MEMORY_S,
    WAITED_FOR_S,
    WRITES,
    named,
)
from ..slurm.port import ControllerLoad
from .cycle_follower import CycleFollower
from .unsent_sums import UnsentSums

logger = logging.getLogger(__name__)

EVERY_S = 60.0  #: between two samples of the order's effect, and between two writes to the database
MOST = 100_000  #: sums in memory while the database is away; what comes then is lost


class CallCounter:
    """Counts the commands of Slurm that ran, from any thread."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._lock = Lock()

    def called(self, command: str) -> None:
        """Count one."""
        with self._lock:
            self._calls[command] = self._calls.get(command, 0) + 1

    def take(self) -> dict[str, int]:
        """Return the calls since the last time, by command."""
        with self._lock:
            calls, self._calls = self._calls, {}
        return calls


class HourlyCounts(CycleFollower):
    """Counts each cycle in memory, and adds the sums to those of their hours in the database every minute.

    An ordered stop writes the rest; a killed daemon loses a minute. *calls* counts commands; *stranded* reports who
    stranded GPUs since the start.
    """

    leader_only = True  # of two daemons one counts

    def __init__(
        self,
        store: Store,
        cluster: str,
        clock: Clock,
        calls: CallCounter,
        stranded: Callable[[], Sequence[StrandedBy]],
    ) -> None:
        super().__init__("hours")
        self._sums = UnsentSums(partial(store.add_hours, cluster), MOST)
        self._clock = clock
        self._calls, self._stranded = calls, stranded
        self._mode = "observe"
        self._last_s: float | None = None
        self._load: ControllerLoad | None = None
        self._seen: dict[tuple[str, str], tuple[float, float]] = {}  # stranded until now, by owner
        self._wait = Timer(clock.monotonic)

    def close(self) -> None:
        """Count no more cycles, and write what is left."""
        super().close()
        if self._last_s is None:
            return
        try:
            self._work()
        except SlurmschedError as error:
            self._failed(error)

    def observe_load(self, load: ControllerLoad) -> None:
        """Count the RPCs that slurmctld answered since the last reading of its counters."""
        before, self._load = self._load, load
        if before is None or load.rpc_count < before.rpc_count or not load.now_s > before.now_s:
            return  # the first reading, or the counters began anew
        if load.now_s - before.now_s > LONGEST_S:
            return
        self._count(named(RPCS, self._mode), load.rpc_count - before.rpc_count)
        self._count(named(RPC_S, self._mode), max(load.rpc_total_s - before.rpc_total_s, 0.0))
        self._count(named(RPC_SPAN_S, self._mode), load.now_s - before.now_s)

    def _note(self, report: CycleReport) -> bool:
        last_s, self._last_s, self._mode = self._last_s, report.now_s, report.mode
        lasted_s = 0.0 if last_s is None else min(max(report.now_s - last_s, 0.0), LONGEST_S)
        nodes, pending = report.view.nodes, report.view.pending
        free = int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[nodes.usable].sum())
        ranked = report.plan.jobs.rank >= 0
        wanted = int((pending.gpus * np.maximum(pending.tasks, 1))[ranked].sum())
        self._count(named(COUNTED_S, report.mode), lasted_s)
        self._count(GPUS_S, lasted_s * int(nodes.gpus[nodes.usable].sum()))
        self._count(FREE_S, lasted_s * free)
        self._count(WAITED_FOR_S, lasted_s * min(free, wanted))
        for kind, many in report.actions.items():
            self._count(named(WRITES, kind), many)
        self._count(REFUSED, report.refused)
        for command, many in self._calls.take().items():
            self._count(named(CALLS, command), many)
            self._count(named(MODE_CALLS, report.mode), many)
        return True

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        self._wait.put_off(EVERY_S)
        report = self._report
        if report is not None:
            self._sample(report)
        self._count_stranded()
        self._sums.send()

    def _sample(self, report: CycleReport) -> None:
        """Count the effect that the order has now on the work ahead of each account's jobs."""
        shares = [share for share in advice(report.view, report.plan) if share.kind == "account"]
        self._count(named(EFFECT_SAMPLES, report.mode), 1)
        for share in shares:
            for what, value in (
                (EFFECT_JOBS, share.jobs),
                (EFFECT_S, share.change_s * share.jobs),
                (EFFECT_SOONER, share.sooner),
                (EFFECT_LATER, share.later),
            ):
                self._count(named(what, report.mode), value, share.name, always=what == EFFECT_JOBS)

    def _count_stranded(self) -> None:
        table = {(one.account, one.user): (one.cpu_gpu_hours, one.memory_gpu_hours) for one in self._stranded()}
        for owner, hours in table.items():
            before = self._seen.get(owner, (0.0, 0.0))
            for what, now, then in zip((STRANDED_CPUS_S, STRANDED_MEMORY_S), hours, before, strict=True):
                self._count(what, (now - then if now >= then else now) * HOUR_S, *owner)
        self._seen = table

    def _count(self, what: str, value: float, account: str = "", user: str = "", *, always: bool = False) -> None:
        if not value and not always:
            return
        self._sums.add(self._clock.now(), what, account, user, value)

    def _failed(self, error: SlurmschedError) -> None:
        logger.warning("the counts of this hour are not saved yet: %s", error)

    def _abandon(self) -> None:
        """End nothing: a write ends by the database's own time limit."""
