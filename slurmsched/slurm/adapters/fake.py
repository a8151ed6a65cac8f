"""A small Slurm in memory, for tests and for authors of policies, behind the same port as the real adapters.

It starts jobs by priority on a pool of GPUs, requeues as Slurm does (a new submit time, a begin time two minutes
later, the first submit time lost) and refuses in Slurm's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import count
from typing import Any

import numpy as np

from ...cluster.actions import (
    Action,
    AskToStop,
    JobAction,
    MoveNodes,
    Requeue,
    Resize,
    Resume,
    SetAdminComment,
    Share,
    StartShared,
    Suspend,
    Unmark,
    Unshare,
    job_of,
)
from ...cluster.columns import Labels
from ...cluster.events import Value
from ...cluster.jobs import JobState, JobTable, deadlines, job_table
from ...cluster.nodes import NodeTable, PartitionTable, QosTable
from ...cluster.records.associations import NO_ASSOCIATIONS, AssociationTable
from ...cluster.records.outcomes import OutcomeTable, RefusedRecord
from ...cluster.records.usage import NO_USAGE, UsageTable
from ...cluster.state import ClusterState
from ...cluster.text.hostlist import expand, fold
from ...errors import SlurmUnavailable
from ..port import ActionResult, ClusterInfo, ControllerLoad
from ..write.verbs import CHANGED_MEANWHILE, MARK
from .fake_job import FakeJob
from .fake_slots import has_room, reshaped

REQUEUE_DELAY_S = 121.0
"""The delay of a requeued job, in seconds: Slurm first lets the credential of its last run expire."""

_HOLDING = frozenset({JobState.RUNNING, JobState.SUSPENDED})
"""The states of jobs on their nodes."""


@dataclass
class FakeSlurm:
    """The ``Slurm`` port over jobs in memory. Time moves only through ``advance``."""

    nodes: int = 4
    gpus_per_node: int = 4
    shared_nodes: int = 0  #: number of nodes, the last ones, with slots instead of whole GPUs; see ``node_lists``
    now_s: float = 1_000_000.0
    partitions: dict[str, int] = field(default_factory=lambda: {"gpu": 1})  #: tier by name
    qos: dict[str, int] = field(default_factory=lambda: {"normal": 0})  #: priority by name
    config: dict[str, str] = field(
        default_factory=lambda: {
            "ClusterName": "fake",
            "PriorityType": "priority/multifactor",
            "SLURM_VERSION": "22.05.8",
        }
    )
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    accounts: AssociationTable = NO_ASSOCIATIONS
    bad_records: list[RefusedRecord] = field(default_factory=list)  #: of accounting
    node_lists: dict[str, str] = field(default_factory=dict)  #: host lists of partitions without all nodes
    unshown: dict[str, str] = field(default_factory=dict)  #: host lists of further nodes that are not shown
    accounted: dict[int, FakeJob] = field(default_factory=dict)  #: finished jobs that only accounting still has
    away: bool = False  #: answer nothing, as a stopped slurmctld
    reads: int = 0
    written: list[Action] = field(default_factory=list)
    _ids: count[int] = field(default_factory=lambda: count(1))

    def submit(self, runtime_s: float, **details: object) -> int:
        """Queue a job now; *details* are fields of FakeJob."""
        job = FakeJob(next(self._ids), runtime_s, submitted_s=self.now_s, begin_s=self.now_s, left_s=runtime_s)
        self.jobs[job.job_id] = replace(job, **details)  # type: ignore[arg-type]
        return job.job_id

    def advance(self, seconds: float) -> None:
        """Advance the clock: jobs end when their runtime is over, and the best that fit start."""
        until_s = self.now_s + seconds
        self._start_jobs()
        while True:
            ends = [
                (self.now_s + job.left_s, job.job_id) for job in self.jobs.values() if job.state == JobState.RUNNING
            ]
            begins = [
                job.begin_s for job in self.jobs.values() if job.state == JobState.PENDING and job.begin_s > self.now_s
            ]
            stops = [job.stops_s for job in self.jobs.values() if job.state == JobState.RUNNING]
            next_s = min([until_s, *(at_s for at_s, _ in ends), *begins, *stops])
            self._run_until(next_s)
            self._start_jobs()
            if next_s >= until_s:
                return

    def facts(self) -> ClusterInfo:
        """Describe the fake cluster; we have Operator rights on it."""
        self._answering()
        return ClusterInfo("fake", (22, 5, 8), dict(self.config), "slurmsched", "Operator")

    def observe(self) -> ClusterState:
        """Return the whole state, as the real adapters do."""
        self._answering()
        self.reads += 1
        jobs = _as_table(list(self.jobs.values()), self.now_s)
        started = (jobs.state >= JobState.CONFIGURING) & (jobs.state <= JobState.COMPLETING)
        return ClusterState(
            pending=jobs.take(jobs.state == JobState.PENDING),
            running=jobs.take(started),
            ended=jobs.take((jobs.state >= JobState.COMPLETED) & (jobs.state <= JobState.REQUEUED)),
            nodes=self._node_table(),
            partitions=PartitionTable(
                Labels.of(self.partitions),
                np.array(list(self.partitions.values()), dtype=np.int64),
                np.ones(len(self.partitions), dtype=bool),
                np.full(len(self.partitions), np.inf),
                Labels.of(fold(self._members(name)) for name in self.partitions),
                default=np.arange(len(self.partitions)) == 0,
                unshown=Labels.of(self.unshown.get(name, "") for name in self.partitions),
            ),
            qos=QosTable(Labels.of(self.qos), np.array(list(self.qos.values()), dtype=np.int64)),
        )

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Execute each action, or refuse it in Slurm's words."""
        self._answering()
        answers = []
        for action in actions:
            self.written.append(action)
            answers.append(ActionResult(action, self._do(action)))
        return answers

    def load(self) -> ControllerLoad:
        """Return a load that is always low."""
        self._answering()
        return ControllerLoad(0.001, 100, 0.1, 0)

    def outcomes(self, since_s: float, until_s: float, refused: list[RefusedRecord] | None = None) -> OutcomeTable:
        """Return finished runs with their true times."""
        self._answering()
        if refused is not None:
            refused += self.bad_records
        ended = [j for j in self.jobs.values() if j.state.ended and since_s <= j.ended_s < until_s]
        return _as_outcomes(sorted(ended, key=lambda job: (job.ended_s, job.job_id)))

    def usage(self, since_s: float, until_s: float) -> UsageTable:
        """Return nothing: its jobs use no nodes."""
        self._answering()
        return NO_USAGE

    def associations(self) -> AssociationTable:
        """Return the accounts that a test gave it."""
        self._answering()
        return self.accounts

    def forgot(self, job_ids: Sequence[int]) -> bool:
        """Return True if it has none of *job_ids*."""
        self._answering()
        return self.jobs.keys().isdisjoint(job_ids)

    def with_our_comment(self) -> list[int]:
        """Return the jobs whose AdminComment is ours."""
        self._answering()
        return [j.job_id for j in self.jobs.values() if not j.state.ended and j.admin_comment.startswith(MARK)]

    def past_runs(self, job_ids: Sequence[int], since_s: float) -> OutcomeTable:
        """Return finished runs with their true times, also of jobs that only accounting still has."""
        self._answering()
        table = _as_outcomes([*self.accounted.values(), *(job for job in self.jobs.values() if job.state.ended)])
        table = table.take(np.isin(table.job_id, list(job_ids)) & (table.ended_s >= since_s))
        return table.take(np.lexsort((table.job_id, table.ended_s)))

    def _answering(self) -> None:
        if self.away:
            raise SlurmUnavailable("fake: slurmctld does not answer")

    def _move_nodes(self, move: MoveNodes) -> str | None:
        """Change the node lists that ``observe`` shows; jobs still start on the one pool of GPUs."""
        for step in move.steps:
            if step.partition not in self.partitions:
                return f"Invalid partition name specified for partition {step.partition}"
            self.node_lists[step.partition] = step.nodes
        return None

    def _do(self, action: Action) -> str | None:
        if isinstance(action, MoveNodes):
            return self._move_nodes(action)
        job = self.jobs.get(job_of(action))
        if job is None:
            return f"Invalid job id specified for job {job_of(action)}"
        try:
            changed = self._changed(job, action)
        except ValueError as error:
            return str(error)
        if isinstance(changed, str):
            return f"{changed} for job {job.job_id}"
        self.jobs[job.job_id] = changed
        return None

    def _changed(self, job: FakeJob, action: Action) -> FakeJob | str:
        """Return the job after *action*, or Slurm's refusal."""
        pending = job.state == JobState.PENDING
        match action:
            case Share() | StartShared() | Unmark() | Unshare() if pending:
                if not self.shared_nodes:
                    return "Invalid generic resource (gres) specification"
                return reshaped(job, action, self.now_s)
            case JobAction() if pending and (columns := action.sets(self.now_s)):
                return self._set(job, columns, action.expects())
            case Resize(gpus=gpus, before=before) if pending:
                many = action.nodes[1] if action.each else job.nodes
                there = job.gpus == before and (not action.each or job.nodes == action.nodes[0])
                return replace(job, gpus=gpus, nodes=many) if there else f"it asks for {job.gpus} GPUs by now"
            case Requeue() if job.state in {JobState.RUNNING, JobState.SUSPENDED}:
                return self._requeued(job) if job.requeueable else "Requested operation is presently disabled"
            case AskToStop() if job.state == JobState.RUNNING:
                return replace(job, stops_s=self.now_s + job.saves_s)
            case AskToStop() if pending or job.state == JobState.SUSPENDED:
                return job  # a signal has no effect on a job that is not running
            case SetAdminComment(text=text):
                theirs = job.admin_comment and not job.admin_comment.startswith(MARK)
                return "its AdminComment is somebody else's" if theirs else replace(job, admin_comment=text)
            case Suspend() if job.state == JobState.RUNNING:
                return replace(job, state=JobState.SUSPENDED)
            case Resume() if job.state == JobState.SUSPENDED:
                return replace(job, state=JobState.RUNNING)
        return "Job is pending execution" if pending else "Job is no longer pending execution"

    def _set(self, job: FakeJob, columns: Mapping[str, Value], expected: Mapping[str, Value]) -> FakeJob | str:
        """Return the job with the columns that an action sets, or Slurm's refusal."""
        if any(getattr(job, name) != value for name, value in expected.items()):
            return CHANGED_MEANWHILE
        if set(filter(None, str(columns.get("partition", "")).split(","))) - self.partitions.keys():
            return "Invalid partition name specified"
        changes: Any = {_FIELDS.get(name, name): value for name, value in columns.items()}
        return replace(job, **changes)

    def _requeued(self, job: FakeJob) -> FakeJob:
        return replace(
            job,
            state=JobState.PENDING,
            submitted_s=self.now_s,
            begin_s=self.now_s + REQUEUE_DELAY_S,
            started_s=float("nan"),
            stops_s=float("inf"),
            left_s=job.left_s if job.stops_s <= self.now_s else job.runtime_s,
            restarts=job.restarts + 1,
            partition=job.requested_partitions or job.partition,
        )

    def _run_until(self, at_s: float) -> None:
        passed_s, self.now_s = at_s - self.now_s, at_s
        for job in list(self.jobs.values()):
            if job.state == JobState.RUNNING:
                left_s = job.left_s - passed_s
                ended = left_s <= 1e-9
                ran = replace(
                    job,
                    left_s=max(0.0, left_s),
                    state=JobState.COMPLETED if ended else JobState.RUNNING,
                    ended_s=at_s if ended else float("nan"),
                )
                self.jobs[job.job_id] = self._requeued(ran) if ran.stops_s <= at_s and not ended else ran

    def _start_jobs(self) -> None:
        """Start the best pending jobs while they fit, stopping at the first that does not: no backfill here.

        Jobs with slots wait only for their own GPUs, not behind others.
        """
        full = False
        waiting = [
            j for j in self.jobs.values() if j.state == JobState.PENDING and j.begin_s <= self.now_s and not j.held
        ]
        for job in sorted(waiting, key=lambda j: (-self._tier(j.partition), -j.priority, j.job_id)):
            if job.per_node:
                if not has_room(job, self.jobs.values(), self._members(job.partition)):
                    continue
            elif full or job.gpus > self.free_gpus:
                full = True
                continue
            self.jobs[job.job_id] = replace(
                job,
                state=JobState.RUNNING,
                started_s=self.now_s,
                partition=max(job.partition.split(","), key=self._tier),
                requested_partitions=job.partition,
            )

    def _tier(self, names: str) -> int:
        return max(self.partitions[name] for name in names.split(","))

    def _members(self, partition: str) -> tuple[str, ...]:
        return expand(self.node_lists.get(partition, f"n[1-{self.nodes}]"))

    @property
    def free_gpus(self) -> int:
        """The number of GPUs that are neither shared nor held by a running or suspended job."""
        whole = (self.nodes - self.shared_nodes) * self.gpus_per_node
        return whole - sum(j.gpus for j in self.jobs.values() if j.state in _HOLDING and not j.per_node)

    def _node_table(self) -> NodeTable:
        size, total = self.nodes, (self.nodes - self.shared_nodes) * self.gpus_per_node
        used = np.diff(np.minimum(np.arange(size + 1) * self.gpus_per_node, total - self.free_gpus))
        used[size - self.shared_nodes :] = self.gpus_per_node
        same = Labels.of([""] * size)
        zeros = np.zeros(size, dtype=np.int64)
        return NodeTable(
            name=Labels.of(f"n{number}" for number in range(1, size + 1)),
            partitions=Labels.of(
                ",".join(name for name in self.partitions if f"n{number}" in self._members(name))
                for number in range(1, size + 1)
            ),
            state=Labels.of(["idle"] * size),
            usable=np.ones(size, dtype=bool),
            cpus=zeros + 64,
            cpus_used=zeros.copy(),
            memory_mib=np.full(size, 256_000.0),
            memory_used_mib=np.zeros(size),
            gpus=zeros + self.gpus_per_node,
            gpus_used=used.astype(np.int64),
            gpu_type=same,
            features=same,
        )


_FIELDS = {"site_points": "points", "eligible_s": "begin_s"}
"""The fields of jobs that have another name than their columns."""

_SAME = ("job_id", "gpus", "name", "user", "account", "qos", "partition", "time_limit_s", "submitted_s")
_ALSO = (
    "nodes",
    *("nice", "restarts", "requeueable", "interactive", "per_gpu", "required_nodes", "excluded_nodes", "node_request"),
    *("started_s", "ended_s", "priority"),
)


def _as_table(jobs: list[FakeJob], now_s: float) -> JobTable:
    submitted_s = np.array([job.submitted_s for job in jobs], dtype=np.float64)
    table = job_table(
        len(jobs),
        **{name: [getattr(job, name) for job in jobs] for name in (*_SAME, *_ALSO)},
        comment=[job.comment for job in jobs],
        first_submit_s=submitted_s,
        eligible_s=[job.begin_s for job in jobs],
        site_points=[job.points for job in jobs],
        state=[job.state for job in jobs],
        reason=[_reason(job, now_s) for job in jobs],
        node_list=[(job.required_nodes or "n1") if job.state in _HOLDING else "" for job in jobs],
        per_node=[job.per_node or f"gres:gpu:{job.gpus}" for job in jobs],
        per_job=[not job.per_node for job in jobs],
    )
    return replace(table, deadline_s=deadlines(table, UTC))


def _reason(job: FakeJob, now_s: float) -> str:
    if job.state != JobState.PENDING:
        return "None"
    if job.held:
        return "JobHeldUser"
    return "BeginTime" if job.begin_s > now_s else "Resources"


def _as_outcomes(jobs: list[FakeJob]) -> OutcomeTable:
    ones = np.ones(len(jobs), dtype=np.int64)

    def numbers(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([getattr(job, name) for job in jobs], dtype=np.float64)

    return OutcomeTable(
        job_id=numbers("job_id").astype(np.int64),
        restart=numbers("restarts").astype(np.int64),
        name=Labels.of(job.name for job in jobs),
        user=Labels.of(job.user for job in jobs),
        account=Labels.of(job.account for job in jobs),
        qos=Labels.of(job.qos for job in jobs),
        partition=Labels.of(job.partition for job in jobs),
        gpus=numbers("gpus").astype(np.int64),
        nodes=ones,
        cpus=ones.copy(),
        time_limit_s=numbers("time_limit_s"),
        first_submit_s=numbers("submitted_s"),
        eligible_s=numbers("begin_s"),
        started_s=numbers("started_s"),
        ended_s=numbers("ended_s"),
        runtime_s=numbers("ended_s") - numbers("started_s"),
        state=np.array([job.state for job in jobs], dtype=np.int64),
    )
