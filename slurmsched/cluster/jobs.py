"""Jobs as columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from enum import IntEnum
from typing import Any

import numpy as np

from ..errors import CommentError
from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from .comment_columns import comment_columns
from .text.comment import Deadline

SETTLE_S = 3.0
"""The shortest time, in seconds, between a job's requeue and its next start.

slurmd still holds the revoked credential of the ended run: it refuses a run that starts within the same second, and
the job FAILS (seen on 22.05). Slurm's own delay of two minutes prevents this.
"""


class JobState(IntEnum):
    """The state of a job; the base states of squeue(1)."""

    PENDING = 0
    CONFIGURING = 1
    RUNNING = 2
    SUSPENDED = 3
    COMPLETING = 4
    COMPLETED = 5
    FAILED = 6
    TIMEOUT = 7
    CANCELLED = 8
    NODE_FAIL = 9
    PREEMPTED = 10
    OUT_OF_MEMORY = 11
    REQUEUED = 12
    OTHER = 13

    @property
    def ended(self) -> bool:
        """True if the job, or this run of it, has ended."""
        return JobState.COMPLETED <= self <= JobState.REQUEUED


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs; the pending tasks of one array are one row, since arrays are the unit of order.

    Times are Unix seconds, NaN where unknown; texts are empty where Slurm has none.
    """

    job_id: IntArray  #: the id that scontrol takes to write this row (the array's for an array)
    array_job_id: IntArray  #: 0 unless part of an array
    task_id: IntArray  #: of one array task that started; -1 for a plain job or a whole pending array
    array_limit: IntArray  #: the most tasks of its array that run at once (``%N``); 0 for no such limit
    tasks: IntArray  #: number of pending tasks in this row; 1 for a plain job
    het_job_id: IntArray  #: leader of a heterogeneous job; 0 otherwise
    name: Labels
    user: Labels
    account: Labels
    qos: Labels
    partition: Labels  #: comma list as submitted
    state: IntArray  #: a JobState
    reason: Labels  #: Slurm's reason for the wait
    gpus: IntArray  #: per task, over all its nodes
    gpu_type: Labels
    nodes: IntArray
    most_nodes: IntArray  #: on which it may be spread; 0 where not known
    ntasks: IntArray  #: those that its CPUs are for; 0 where not known
    cpus: IntArray
    memory_mib: FloatArray  #: over all nodes
    node_memory_mib: FloatArray  #: that it asks of each node; 0 where not known
    cpu_memory_mib: FloatArray  #: that it asks for each CPU; 0 where not known
    time_limit_s: FloatArray  #: infinite where unlimited
    submitted_s: FloatArray  #: Slurm's, reset by a requeue
    first_submit_s: FloatArray  #: ours, kept through requeues
    eligible_s: FloatArray  #: Slurm's, moved by every new StartTime, ours too
    waiting_since_s: FloatArray  #: EligibleTime without begin times of ours; NaN where it is the same, infinite if held
    delayed_s: FloatArray  #: total delay by begin times of ours
    waited_s: FloatArray  #: its wait before earlier runs and before a hold, less holds since ``waiting_since_s``
    away_s: FloatArray  #: the time that it neither waited nor ran: held, before a begin time, under a dependency
    started_s: FloatArray  #: for pending jobs Slurm's own estimate, where it has one
    ended_s: FloatArray  #: for running jobs the latest end by time limit
    ran_s: FloatArray  #: seconds of this run and of the earlier ones that it continues
    ran_on: Labels  #: those of the earlier ones by number of GPUs, as 1=600 4=1200; empty where not known
    priority: IntArray  #: as Slurm has it, our points included
    site_points: IntArray  #: SiteFactor, 0 if none
    age_points: IntArray
    fairshare_points: IntArray
    size_points: IntArray
    partition_points: IntArray
    qos_points: IntArray
    tres_points: IntArray
    fixed: BoolArray  #: somebody set the priority by hand; multifactor no longer applies
    nice: IntArray
    restarts: IntArray
    requeueable: BoolArray
    interactive: BoolArray  #: no batch script: salloc, srun, portals
    interactive_used_s: FloatArray  #: if it is: GPU-seconds of its user's such runs that ended within a day
    exclusive: BoolArray
    reservation: Labels
    features: Labels
    licences: Labels
    dependency: Labels
    required_nodes: Labels
    excluded_nodes: Labels  #: host list; empty too where nobody reads it (``power.steer``, ``power.migrate``)
    own_partition: Labels  #: the partitions that its owner asked for, where the present ones are ours; else empty
    steered: Labels  #: the types of GPUs that we sent it to, as a100+v100; empty where the excluded nodes are not ours
    steered_s: FloatArray  #: when we sent it to these types, else when we let it go; 0 where never
    left_nodes: Labels  #: the overloaded nodes that we last asked it to leave, a host list; empty for none within a day
    left_s: FloatArray  #: when we asked for that, also where it is not known whether this was sent; 0 for never
    node_request: Labels  #: its CPUs and memory as Slurm has them (``node_request``); empty where nobody reads them
    own_request: Labels  #: those that its owner asked for, where the present ones are ours; else empty
    sized_s: FloatArray  #: when we last changed them, or gave its own back; 0 where never
    request_changed: BoolArray  #: somebody else has changed them since
    used_cpus: FloatArray  #: the CPUs per node that runs of its kind kept busy at most (``usage``); NaN where unknown
    used_memory_mib: FloatArray  #: the memory per node that they used at most; NaN where unknown
    type_speeds: Labels  #: the speed of its kind by type of GPU over the fastest, as a100=1 v100=0.4; empty if unknown
    avoided: Labels  #: our changes that kept it from starting, and are not repeated (``avoided``); empty for none
    half_written: Labels  #: our changes of which Slurm took one part and not the other, as rightsize+resize
    own_gpus: IntArray  #: the GPUs that its owner asked for, where it asks for others by us now; else 0
    resized_s: FloatArray  #: when we last changed that number; 0 where never
    gpus_each: IntArray  #: its GPUs on each node, where its number of nodes is ours too; else 0
    taken_nodes: IntArray  #: the nodes that Slurm took of a change of ours of which it counts others; else 0
    node_range: Labels  #: the nodes that Slurm may give it, as 1-2, each with its GPUs; empty of one number or unread
    size_speeds: Labels  #: the speed of its kind by GPUs over that on the fewest, as 2=1 4=1.7; empty if unknown
    sample_speeds: Labels  #: the samples in a second of its kind with a batch that grows, in the same way
    step_samples: IntArray  #: the samples of a step of this run, if it reports them and its batch may grow; else 0
    noise: FloatArray  #: the gradient noise scale that it reports, in samples, if its batch may grow; NaN if not known
    restart_cost_s: FloatArray  #: what its last restarts, or those of all jobs, took; 0 where there were none
    node_list: Labels  #: where it runs
    node_gpus: Labels  #: its GPUs on each of these nodes, as 8,4; empty where not known, and they are taken as even
    beside: IntArray  #: the job on whose GPUs it runs as a second job, where the cluster shows it; 0 for none
    guest_gpus: IntArray  #: its GPUs on which a second job runs, where the cluster shows them
    sensitive: BoolArray  #: it slows down when spread over more nodes than it needs
    spread_speed: FloatArray  #: speed of its kind on more nodes than needed, over that on as few; NaN if not measured
    comment: Labels
    off: BoolArray  #: its comment has ``slurmsched:off``
    ckpt: BoolArray  #: its owner allows requeues
    deadline_s: FloatArray  #: the time by which its owner wants the result; infinite without one
    held_by_us: BoolArray  #: its StartTime is an expiring hold of ours
    asked_s: FloatArray  #: time of our last stop request; NaN without one
    asks: IntArray  #: number of our stop requests within a day
    told: Labels  #: what we last wrote, or tried to write, into its AdminComment
    per_node: Labels  #: generic resources requested per job or per node, as squeue writes them
    gpu_util: FloatArray  #: 0..1, mean of earlier runs of it or of its kind; NaN where never measured
    memory_util: FloatArray  #: the same of the memory controller
    gpu_memory_mib: FloatArray  #: the largest use of one GPU by such runs; NaN where never measured
    unstable: BoolArray  #: the utilisation of such runs was unsteady
    measured: BoolArray  #: there are such runs
    share_score: IntArray  #: its disturbance of another job on its GPUs: 0 tiny, 1 medium, 2 jumbo
    shares: BoolArray  #: the share token in its comment is ours
    asked_for: Labels  #: PARTITIONS GPUS such as gpu gpu:a100:2, of a job that shares: what it has back if it does not
    given_back: BoolArray  #: it waited for GPUs to share without success and got its own back
    share_refusal: Labels  #: Slurm's message if it recently refused to change its GPUs into shared ones; else empty
    per_job: BoolArray  #: requests GPUs for the whole job, so that they may be spread over nodes
    per_task: BoolArray  #: requests generic resources per task or socket, which cannot be changed into slots
    per_gpu: BoolArray  #: it or its partition requests CPUs or memory per GPU, which slots would change
    gpu_cpus: IntArray  #: the CPUs that it requests per GPU; 0 for none
    # The columns from here on are derived from the comment (``comment_columns``).
    nopack: BoolArray  #: its owner wants no other job on its GPUs
    noprofile: BoolArray  #: its owner wants it never measured
    amp: BoolArray  #: it trains in mixed precision
    soft: BoolArray  #: a result after its deadline has value too
    least_gpus: IntArray  #: the fewest GPUs with which its owner lets it run (``gpus=``); 0 where nothing was said
    most_gpus: IntArray  #: the most; 0 where nothing was said
    coldstart_s: FloatArray  #: seconds before its GPU use is typical; 0 where none were said
    iterations: IntArray  #: planned training iterations; 0 where none were said
    pace_s: FloatArray  #: seconds per iteration; NaN where none were said
    done: IntArray  #: iterations done before the present run, or the next one of a job that waits
    stop_level: FloatArray  #: the accuracy, or the fall of the loss, in its owner's rule; NaN without one
    urgency: FloatArray  #: 0..10; NaN where none was said
    busy_level: FloatArray  #: the accuracy in ``busy``; NaN without one
    cpus_least: IntArray  #: the fewest CPUs per node that its owner says it can run with; 0 where none were said
    cpus_best: IntArray  #: the most CPUs per node that it can use; 0 where none were said
    mem_least_mib: IntArray  #: the least memory per node that its owner says it can run with; 0 where none was said
    mem_best_mib: IntArray  #: the most memory per node that it can use; 0 where none was said
    batch_least: IntArray  #: the samples of a step on the GPUs that its owner asked for; 0 where none were said
    batch_most: IntArray  #: the most samples of a step on more GPUs; 0 where none were said
    deadline_at_s: IntArray  #: the deadline in seconds since the moment that ``deadline_since`` names
    deadline_since: Labels  #: submit, epoch or local (see ``Deadline``); empty where there is no deadline
    stop: Labels  #: its owner's rule for an early end: never, opt, acc or loss; empty where none was said
    busy: Labels  #: opt or acc, what ``stop`` may become while the cluster is overloaded; empty where none was said
    types: Labels  #: the types of GPUs that its owner accepts, as a100+v100; empty for any
    graph: Labels  #: the graph of its tasks (``text.task_graph``); empty where none was said
    steps: Labels  #: its own steps after a soft deadline, as ``soft_steps`` reads them
    share_token: Labels  #: the GPUs that a share token names, ours or not; empty where there is none
    comment_problem: Labels  #: the first thing wrong with its tokens, in words for its owner

    @property
    def came_s(self) -> FloatArray:
        """The time from which a job counts as the first to come: its first submission, later by ``away_s``.

        A job that is submitted long before it may run, or held for a while, comes before none that waited longer.
        """
        return np.asarray(self.first_submit_s + self.away_s)

    def settled(self, now_s: float) -> BoolArray:
        """Return a mask of jobs that were never requeued, or so long ago that they may start again."""
        settled: BoolArray = (self.restarts == 0) | self.submitted_before(now_s - SETTLE_S)
        return settled

    def submitted_before(self, time_s: float) -> BoolArray:
        """Return a mask of jobs submitted, or requeued, at *time_s* at the latest."""
        before: BoolArray = self.submitted_s <= time_s
        return before

    def row_of(self, job_id: int) -> int | None:
        """Return the row of *job_id*, or of the array that holds it; None if there is none."""
        for column in (self.job_id, self.array_job_id):
            rows = np.flatnonzero(column == job_id)
            if len(rows):
                return int(rows[0])
        return None


NEUTRAL: dict[str, Any] = {
    "task_id": -1,
    "tasks": 1,
    "nodes": 1,
    "cpus": 1,
    "time_limit_s": np.inf,
    "started_s": np.nan,
    "ended_s": np.nan,
    "eligible_s": np.nan,
    "waiting_since_s": np.nan,
    "asked_s": np.nan,
    "deadline_s": np.inf,
    "priority": 1,
    "requeueable": True,
    "gpu_util": np.nan,
    "memory_util": np.nan,
    "gpu_memory_mib": np.nan,
    "share_score": 2,
    "spread_speed": np.nan,
    "used_cpus": np.nan,
    "used_memory_mib": np.nan,
    "noise": np.nan,
    "pace_s": np.nan,
    "stop_level": np.nan,
    "urgency": np.nan,
    "busy_level": np.nan,
}
"""The default values of columns; every other column is zero, false or empty."""


def job_table(length: int, **columns: Any) -> JobTable:
    """Build a JobTable of *length* rows from *columns*; missing ones take the neutral value.

    The columns of what a comment says are derived here, unless *columns* has them too.
    """
    if "comment" in columns:
        comment = columns["comment"]
        comment = comment if isinstance(comment, Labels) else Labels.of(comment)
        columns = comment_columns(comment) | columns | {"comment": comment}
    return table_of(JobTable, length, NEUTRAL, columns)


def deadlines(jobs: JobTable, zone: tzinfo) -> FloatArray:
    """Return the deadline of each of *jobs*, from the columns of its comment and its first submission.

    Local times are those of *zone*. Infinite without a deadline, and for a local time that is skipped or ambiguous.
    """
    deadline_s = np.full(len(jobs), np.inf)
    found: dict[Deadline | None, float] = {}
    for row in np.flatnonzero(_since(jobs.deadline_since, *_SINCE)).tolist():
        deadline = deadline_of(jobs, row)
        if deadline not in found:
            found[deadline] = _since_submit_or_1970_s(deadline, zone)
        deadline_s[row] = found[deadline]
    deadline_s += np.where(_since(jobs.deadline_since, "submit"), jobs.first_submit_s, 0.0)
    return np.where(np.isnan(deadline_s), np.inf, deadline_s)


def deadlines_from(jobs: JobTable, first_submit_s: FloatArray) -> FloatArray:
    """Return the deadlines of *jobs*; those relative to the submission count from *first_submit_s* instead."""
    later_s = first_submit_s - jobs.first_submit_s
    moved = (later_s != 0) & np.isfinite(later_s) & np.isfinite(jobs.deadline_s)
    moved &= _since(jobs.deadline_since, "submit")
    return np.where(moved, jobs.deadline_s + later_s, jobs.deadline_s) if moved.any() else jobs.deadline_s


def deadline_of(jobs: JobTable, row: int) -> Deadline | None:
    """Return the deadline of a job as its comment has it; None where it has none."""
    since = jobs.deadline_since[row]
    return Deadline(int(jobs.deadline_at_s[row]), since) if since else None  # type: ignore[arg-type]  # a Deadline's


_SINCE = ("submit", "epoch", "local")


def _since(column: Labels, *origins: str) -> BoolArray:
    """Select the rows whose deadline counts from one of *origins*."""
    counted: BoolArray = column.map([name in origins for name in column.names], np.bool_)
    return counted


def _since_submit_or_1970_s(deadline: Deadline | None, zone: tzinfo) -> float:
    if deadline is None:
        return np.inf
    try:
        return deadline.resolve(0.0, zone)
    except CommentError:
        return np.inf
