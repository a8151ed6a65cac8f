"""The result of one observation of the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .columns import FloatArray, IntArray, Rows
from .forecast import Forecast
from .jobs import JobState, JobTable
from .limits import NO_LIMITS, LimitTable
from .nodes import NO_ACCOUNTS, AccountTable, NodeTable, PartitionTable, QosTable
from .outlook.free_gpus import FreeGpus
from .outlook.remaining import Remaining, remaining
from .records.progress import NO_PROGRESS, ProgressTable
from .records.promises import NO_PROMISES, PromiseTable
from .records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from .reservations import NO_RESERVATIONS, PartUse, ReservationTable, kept_until_s, part_use
from .reserved_parts import ReservedParts, with_parts
from .text.gpu_types import NVIDIAS, GpuParts
from .topology import FLAT, Topology

COMPLETION_S = 5.0
"""The time that a job that has ended still holds its nodes."""


@dataclass(frozen=True)
class ClusterState:
    """All data of one read of Slurm."""

    pending: JobTable
    running: JobTable  #: started and not ended: running, suspended, completing
    ended: JobTable  #: ended jobs that Slurm still has
    nodes: NodeTable
    partitions: PartitionTable
    qos: QosTable
    melted: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Ids of pending tasks without a row of their own, since the waiting tasks of an array are one row."""
    accounts: AccountTable = NO_ACCOUNTS
    limits: LimitTable = NO_LIMITS
    reservations: ReservationTable = NO_RESERVATIONS
    topology: Topology = FLAT


@dataclass(frozen=True)
class View:
    """The input of a decision: read-only columns, and ``now_s`` in place of a clock."""

    now_s: float
    pending: JobTable
    running: JobTable
    nodes: NodeTable
    partitions: PartitionTable
    qos: QosTable
    forecast: Forecast  #: of the pending jobs, row by row
    forecast_running: Forecast  #: of the running jobs, row by row
    promises: PromiseTable = NO_PROMISES  #: earlier requests for deadlines, with their answers
    accounts: AccountTable = NO_ACCOUNTS
    solved: SolvedStarts = NO_SOLVED_STARTS
    progress: ProgressTable = NO_PROGRESS  #: of running jobs that report it, and of those that wait again
    limits: LimitTable = NO_LIMITS  #: read only where one blocks a pending job or rules need them
    reservations: ReservationTable = NO_RESERVATIONS
    topology: Topology = FLAT
    gpu_parts: GpuParts = NVIDIAS  #: how much of a GPU a slice counts as, in amounts that are shown

    @cached_property
    def this_s(self) -> FloatArray:
        """How long each running job has run since it started; 0 where that is not known, or its nodes power up."""
        return self.running.this_run_s(self.now_s)

    @cached_property
    def ran_s(self) -> FloatArray:
        """How long each running job has run, with the earlier runs that it continues."""
        return np.maximum(self.running.ran_s, self.this_s)

    @cached_property
    def remaining(self) -> Remaining:
        """The time until each running job ends, given that it ran until now: ``run_left``, and its halts by powers.

        Not known of a job that others suspended is when it goes on: it counts as if it did now.
        """
        jobs, left = self.running, self.run_left
        if not jobs.halts_high_s.any():
            return left
        return Remaining(left.low_s + jobs.halts_low_s, left.median_s + jobs.halts_s, left.high_s + jobs.halts_high_s)

    @cached_property
    def run_left(self) -> Remaining:
        """How long each running job still runs, given that it ran until now.

        A completing one holds its nodes a moment, one that is CONFIGURING runs only when its nodes have powered up.
        """
        jobs = self.running
        found = remaining(self.forecast_running, self.ran_s, self.this_s, jobs.time_limit_s)
        ends, waits = jobs.state == JobState.COMPLETING, jobs.state == JobState.CONFIGURING
        if not (ends | waits).any():
            return found
        job, node, _ = self.free_gpus.held
        ready_s = np.zeros(len(jobs))
        np.maximum.at(ready_s, job, self.nodes.ready_s[node])
        columns = (found.low_s, found.median_s, found.high_s)
        return Remaining(*(np.where(ends, COMPLETION_S, column + ready_s * waits) for column in columns))

    @cached_property
    def free_gpus(self) -> FreeGpus:
        """The GPUs of the nodes, with the running jobs that hold them."""
        kept_s = kept_until_s(self.reservations, self.nodes, self.now_s) - self.now_s
        return FreeGpus(self.running, self.nodes, np.maximum(self.nodes.ready_s, kept_s))

    @cached_property
    def part_use(self) -> PartUse:
        """What running jobs use of the reservations of parts of nodes that they name."""
        whole = self.reservations.whole.all()
        return {} if whole else part_use(self.reservations, self.running, self.free_gpus.held, self.nodes)

    @cached_property
    def gpus_free_s(self) -> FloatArray:
        """The seconds until each GPU of each node is free, [node, GPU], rising, by the median of ``remaining``."""
        return self.free_gpus.by_node(self.remaining.median_s)

    @cached_property
    def tiers(self) -> IntArray:
        """The highest tier among the partitions of each pending job."""
        return self.partitions.highest_tiers(self.pending.partition)

    def first_submit_s(self, job_id: int) -> float | None:
        """Return the first submit time of the job with this id now; None if no such job waits or runs."""
        for jobs in (self.pending, self.running):
            row = jobs.row_of(job_id)
            if row is not None:
                return float(jobs.first_submit_s[row])
        return None

    def take(self, rows: Rows) -> View:
        """Return the view with only *rows* of the pending jobs."""
        return self.changed(pending=self.pending.take(rows), forecast=self.forecast.take(rows))

    def changed(self, **parts: Any) -> View:
        """Return the view with other *parts*; what was computed of the rest is not computed again."""
        view = replace(self, **parts)
        known = (name for name, of in COMPUTED_OF.items() if name in self.__dict__ and of.isdisjoint(parts))
        view.__dict__.update({name: self.__dict__[name] for name in known})
        return view


_RUNNING = frozenset({"now_s", "running", "forecast_running", "nodes", "reservations"})

COMPUTED_OF: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("this_s", "ran_s", "run_left", "remaining", "free_gpus", "part_use", "gpus_free_s"), _RUNNING),
    "tiers": frozenset({"pending", "partitions"}),
}
"""The parts of a view of which its properties are computed."""


def with_parts_of_nodes(view: View) -> tuple[View, ReservedParts]:
    """Return *view* with rows behind its nodes for what reservations that its jobs name have of them; else as it is."""
    jobs = (view.running, view.pending)
    names = {name for table in jobs for text in table.reservation.names for name in text.split(",")}
    nodes, parts = with_parts(view.nodes, view.reservations, names)
    return (view if nodes is view.nodes else replace(view, nodes=nodes)), parts
