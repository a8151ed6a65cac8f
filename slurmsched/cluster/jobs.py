"""Jobs as columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from enum import IntEnum
from typing import Any

import numpy as np

from ..errors import CommentError
from .columns import (
    BoolArray,
    Filler,
    FloatArray,
    IntArray,
    Labels,
    Table,
    asked_about,
    declared,
    dtype_of,
    foreseen,
    from_comment,
    from_intents,
    from_memory,
    from_slurm,
    learnt,
    simulated,
    table_of,
)
from .comment_columns import columns_of_comments, steps_text
from .squeue_values import (
    array_ids,
    array_limit,
    by_task,
    cpus_in,
    gpus_and_types,
    gpus_per_gpu,
    ids,
    is_given,
    is_not_one,
    is_one,
    labels,
    mib_in,
    node_counts,
    numbers,
    requests,
    task_id,
    tasks_in,
    tasks_of,
    times,
)
from .text.deadline_time import Deadline
from .text.tres import seconds

SETTLE_S = 3.0
"""The shortest time, in seconds, between a job's requeue and its next start.

slurmd still holds the revoked credential of the ended run: it refuses a run that starts within the same second, and
the job FAILS (seen on 22.05). Slurm's own delay of two minutes prevents this.
"""


ANY_NODES = 2**31
"""The most nodes of a job that names no most."""


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


_GPU_FIELDS = ("NumNodes", "NumTasks", "tres", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task")


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs; the pending tasks of one array are one row, since arrays are the unit of order.

    Times are Unix seconds, NaN where unknown; texts are empty where Slurm has none.
    """

    #: the id that scontrol takes to write this row (the array's for an array)
    job_id: IntArray = from_slurm("JobID", ids)
    array_job_id: IntArray = from_slurm(("ArrayJobID", "ArrayTaskID"), array_ids)  #: 0 unless part of an array
    #: of one array task that started; -1 for a plain job or a whole pending array
    task_id: IntArray = from_slurm("ArrayTaskID", each=task_id, neutral=-1)
    #: the most tasks of its array that run at once (``%N``); 0 for no such limit
    array_limit: IntArray = from_slurm("ArrayTaskID", each=array_limit)
    #: number of pending tasks in this row; 1 for a plain job
    tasks: IntArray = from_slurm("ArrayTaskID", each=tasks_in, neutral=1)
    het_job_id: IntArray = from_slurm("HetJobID", numbers)  #: leader of a heterogeneous job; 0 otherwise
    name: Labels = from_slurm("Name", labels)
    user: Labels = from_slurm("UserName", labels)
    account: Labels = from_slurm("Account", labels)
    qos: Labels = from_slurm("QOS", labels)
    partition: Labels = from_slurm("Partition", labels)  #: comma list as submitted
    state: IntArray = from_slurm("State")  #: a JobState
    reason: Labels = from_slurm("Reason", labels)  #: Slurm's reason for the wait
    gpus: IntArray = from_slurm(_GPU_FIELDS, gpus_and_types, part=0)  #: per task, over all its nodes
    gpu_type: Labels = from_slurm(_GPU_FIELDS, gpus_and_types, part=1)
    #: it or its partition requests CPUs or memory per GPU, which slots would change
    per_gpu: BoolArray = from_slurm(("cpus-per-tres", "mem-per-tres"), is_given)
    #: the CPUs that it requests per GPU; 0 for none
    gpu_cpus: IntArray = from_slurm("cpus-per-tres", each=gpus_per_gpu)
    nodes: IntArray = from_slurm(("NumNodes", "tres"), node_counts, neutral=1)
    #: on which it may be spread; ANY_NODES where it leaves that to Slurm, 0 where not known
    most_nodes: IntArray = asked_about()
    ntasks: IntArray = from_slurm("NumTasks", each=tasks_of)  #: those that its CPUs are for; 0 where not known
    cpus: IntArray = from_slurm("tres", each=cpus_in, neutral=1)
    memory_mib: FloatArray = from_slurm("tres", each=mib_in)  #: over all nodes
    node_memory_mib: FloatArray = asked_about()  #: that it asks of each node; 0 where not known
    cpu_memory_mib: FloatArray = asked_about()  #: that it asks for each CPU; 0 where not known
    time_limit_s: FloatArray = from_slurm("TimeLimit", each=seconds, neutral=np.inf)  #: infinite where unlimited
    submitted_s: FloatArray = from_slurm("SubmitTime", times)  #: Slurm's, reset by a requeue
    first_submit_s: FloatArray = from_memory()  #: ours, kept through requeues
    #: Slurm's, moved by every new StartTime, ours too
    eligible_s: FloatArray = from_slurm("EligibleTime", times, neutral=np.nan)
    #: EligibleTime without begin times of ours; NaN where it is the same, infinite if held
    waiting_since_s: FloatArray = from_memory(neutral=np.nan)
    delayed_s: FloatArray = from_memory()  #: total delay by begin times of ours
    #: its wait before earlier runs and before a hold, less holds since ``waiting_since_s``
    waited_s: FloatArray = from_memory()
    #: the time that it neither waited nor ran: held, before a begin time, under a dependency
    away_s: FloatArray = from_memory()
    #: for pending jobs Slurm's own estimate, where it has one
    started_s: FloatArray = from_slurm("StartTime", times, neutral=np.nan)
    ended_s: FloatArray = from_slurm("EndTime", times, neutral=np.nan)  #: for running jobs the latest end by time limit
    ran_s: FloatArray = from_memory()  #: seconds of this run and of the earlier ones that it continues
    #: those of the earlier ones by number of GPUs, as 1=600 4=1200; empty where not known
    ran_on: Labels = from_memory()
    priority: IntArray = from_slurm("PriorityLong", numbers, neutral=1)  #: as Slurm has it, our points included
    site_points: IntArray = from_slurm()  #: SiteFactor, 0 if none
    age_points: IntArray = from_slurm()
    fairshare_points: IntArray = from_slurm()
    size_points: IntArray = from_slurm()
    partition_points: IntArray = from_slurm()
    qos_points: IntArray = from_slurm()
    tres_points: IntArray = from_slurm()
    fixed: BoolArray = from_slurm()  #: somebody set the priority by hand; multifactor no longer applies
    nice: IntArray = from_slurm("Nice", numbers)
    restarts: IntArray = from_slurm("RestartCnt", numbers)
    requeueable: BoolArray = from_slurm("Requeue", is_one, neutral=True)
    interactive: BoolArray = from_slurm("BatchFlag", is_not_one)  #: no batch script: salloc, srun, portals
    #: if it is: GPU-seconds of its user's such runs that ended within a day
    interactive_used_s: FloatArray = from_memory()
    exclusive: BoolArray = from_slurm("OverSubscribe")
    reservation: Labels = from_slurm("Reservation", labels)
    features: Labels = from_slurm("Feature", labels)
    licences: Labels = from_slurm("Licenses", labels)
    dependency: Labels = from_slurm("Dependency", labels)
    required_nodes: Labels = from_slurm("ReqNodes", labels)
    #: host list; empty too where nobody reads it (``power.steer``, ``power.migrate``)
    excluded_nodes: Labels = from_slurm("ExcNodes", optional=True)
    #: the partitions that its owner asked for, where the present ones are ours; else empty
    own_partition: Labels = from_intents()
    #: the types of GPUs that we sent it to, as a100+v100; empty where the excluded nodes are not ours
    steered: Labels = from_intents()
    steered_s: FloatArray = from_intents()  #: when we sent it to these types, else when we let it go; 0 where never
    #: the overloaded nodes that we last asked it to leave, a host list; empty for none within a day
    left_nodes: Labels = from_intents()
    #: when we asked for that, also where it is not known whether this was sent; 0 for never
    left_s: FloatArray = from_intents()
    #: its CPUs and memory as Slurm has them (``node_request``); empty where nobody reads them
    node_request: Labels = from_slurm(optional=True)
    own_request: Labels = from_intents()  #: those that its owner asked for, where the present ones are ours; else empty
    sized_s: FloatArray = from_intents()  #: when we last changed them, or gave its own back; 0 where never
    request_changed: BoolArray = from_intents()  #: somebody else has changed them since
    #: the CPUs per node that runs of its kind kept busy at most (``usage``); NaN where unknown
    used_cpus: FloatArray = learnt(neutral=np.nan)
    #: the memory per node that they used at most; NaN where unknown
    used_memory_mib: FloatArray = learnt(neutral=np.nan)
    #: the speed of its kind by type of GPU over the fastest, as a100=1 v100=0.4; empty if unknown
    type_speeds: Labels = learnt()
    #: our changes that kept it from starting, and are not repeated (``avoided``); empty for none
    avoided: Labels = from_intents()
    #: our changes of which Slurm took one part and not the other, as rightsize+resize
    half_written: Labels = from_intents()
    #: the GPUs that its owner asked for, where it asks for others by us now; else 0
    own_gpus: IntArray = from_intents()
    resized_s: FloatArray = from_intents()  #: when we last changed that number; 0 where never
    gpus_each: IntArray = from_intents()  #: its GPUs on each node, where its number of nodes is ours too; else 0
    #: the nodes that Slurm took of a change of ours of which it counts others; else 0
    taken_nodes: IntArray = from_intents()
    #: the nodes that Slurm may give it, as 1-2, each with its GPUs; empty of one number or unread
    node_range: Labels = from_slurm(optional=True)
    #: the speed of its kind by GPUs over that on the fewest, as 2=1 4=1.7; empty if unknown
    size_speeds: Labels = learnt()
    sample_speeds: Labels = learnt()  #: the samples in a second of its kind with a batch that grows, in the same way
    #: the samples of a step of this run, if it reports them and its batch may grow; else 0
    step_samples: IntArray = learnt()
    #: the gradient noise scale that it reports, in samples, if its batch may grow; NaN if not known
    noise: FloatArray = learnt(neutral=np.nan)
    #: what its last restarts, or those of all jobs, took; 0 where there were none
    restart_cost_s: FloatArray = learnt()
    suspended_s: FloatArray = from_intents()  #: since when we have it suspended; 0 where we have not
    #: when it has run as long again as we had it suspended last; 0 where it was not
    rested_s: FloatArray = from_intents()
    paused_s: FloatArray = from_intents()  #: the time of this run in which we had it suspended
    #: the time for which powers will still stop it in place until it ends, if one in ten such jobs needs no more time
    halts_low_s: FloatArray = foreseen()
    halts_s: FloatArray = foreseen()  #: the same if half of them need no more
    halts_high_s: FloatArray = foreseen()  #: the same if nine in ten need no more
    #: what it asks of the network's topology, as switches=1@300 or segment=4 (``topology``); empty for nothing
    topology_request: Labels = from_slurm(optional=True)
    node_list: Labels = from_slurm("NodeList", labels)  #: where it runs
    #: its GPUs on each of these nodes, as 8,4; empty where not known, and they are taken as even
    node_gpus: Labels = simulated()
    #: the job on whose GPUs it runs as a second job, where the cluster shows it; 0 for none
    beside: IntArray = simulated()
    guest_gpus: IntArray = simulated()  #: its GPUs on which a second job runs, where the cluster shows them
    sensitive: BoolArray = simulated()  #: it slows down when spread over more nodes than it needs
    #: speed of its kind on more nodes than needed, over that on as few; NaN if not measured
    spread_speed: FloatArray = learnt(neutral=np.nan)
    comment: Labels = from_slurm("Comment", labels)
    off: BoolArray = from_comment(lambda said: said.off, recorded=True)  #: its comment has ``slurmsched:off``
    ckpt: BoolArray = from_comment(lambda said: said.ckpt, recorded=True)  #: its owner allows requeues
    #: the time by which its owner wants the result; infinite without one
    deadline_s: FloatArray = from_memory(neutral=np.inf)
    held_by_us: BoolArray = from_intents()  #: its StartTime is an expiring hold of ours
    #: time of our last stop request; NaN without one
    stop_requested_s: FloatArray = from_intents(neutral=np.nan, stored="asked_s")
    stop_requests: IntArray = from_intents(stored="asks")  #: number of our stop requests within a day
    #: what we last wrote, or tried to write, into its AdminComment
    sent_comment: Labels = from_intents(stored="told")
    #: generic resources requested per job or per node, as squeue writes them
    per_node: Labels = from_slurm(("tres-per-job", "tres-per-node"), requests)
    #: 0..1, mean of earlier runs of it or of its kind; NaN where never measured
    gpu_util: FloatArray = learnt(neutral=np.nan)
    memory_util: FloatArray = learnt(neutral=np.nan)  #: the same of the memory controller
    #: the largest use of one GPU by such runs; NaN where never measured
    gpu_memory_mib: FloatArray = learnt(neutral=np.nan)
    unstable: BoolArray = learnt()  #: the utilisation of such runs was unsteady
    measured: BoolArray = learnt()  #: there are such runs
    share_score: IntArray = learnt(neutral=2)  #: its disturbance of another job on its GPUs: 0 tiny, 1 medium, 2 jumbo
    shares: BoolArray = from_intents()  #: the share token in its comment is ours
    #: PARTITIONS GPUS such as gpu gpu:a100:2, of a job that shares: what it has back if it does not
    own_whole_gpus: Labels = from_intents(stored="asked_for")
    given_back: BoolArray = from_intents()  #: it waited for GPUs to share without success and got its own back
    #: Slurm's message if it recently refused to change its GPUs into shared ones; else empty
    share_refusal: Labels = from_intents()
    #: requests GPUs for the whole job, so that they may be spread over nodes
    per_job: BoolArray = from_slurm("tres-per-job", is_given)
    #: requests generic resources per task or socket, which cannot be changed into slots
    per_task: BoolArray = from_slurm(("tres-per-socket", "tres-per-task"), by_task)
    pack: BoolArray = from_comment(lambda said: said.pack)  #: its owner lets another job on its GPUs
    nopack: BoolArray = from_comment(lambda said: said.nopack)  #: its owner wants no other job on its GPUs
    noprofile: BoolArray = from_comment(lambda said: said.noprofile)  #: its owner wants it never measured
    quiet: BoolArray = from_comment(lambda said: said.quiet)  #: its owner wants no notices about it
    amp: BoolArray = from_comment(lambda said: said.amp)  #: it trains in mixed precision
    soft: BoolArray = from_comment(lambda said: said.soft)  #: a result after its deadline has value too
    #: the fewest GPUs with which its owner lets it run (``gpus=``); 0 where nothing was said
    least_gpus: IntArray = from_comment(lambda said: said.gpus and said.gpus[0])
    most_gpus: IntArray = from_comment(lambda said: said.gpus and said.gpus[1])  #: the most; 0 where nothing was said
    #: seconds before its GPU use is typical; 0 where none were said
    coldstart_s: FloatArray = from_comment(lambda said: said.coldstart_s)
    #: planned training iterations; 0 where none were said
    iterations: IntArray = from_comment(lambda said: said.iterations)
    #: seconds per iteration; NaN where none were said
    pace_s: FloatArray = from_comment(lambda said: said.pace_s, neutral=np.nan)
    #: iterations done before the present run, or the next one of a job that waits
    done: IntArray = from_comment(lambda said: said.done)
    #: the accuracy, or the fall of the loss, in its owner's rule; NaN without one
    stop_level: FloatArray = from_comment(lambda said: said.stop and said.stop.level, neutral=np.nan)
    urgency: FloatArray = from_comment(lambda said: said.urgency, neutral=np.nan)  #: 0..10; NaN where none was said
    #: the accuracy in ``busy``; NaN without one
    busy_level: FloatArray = from_comment(lambda said: said.busy and said.busy.level, neutral=np.nan)
    #: the fewest CPUs per node that its owner says it can run with; 0 where none were said
    cpus_least: IntArray = from_comment(lambda said: said.cpus and said.cpus[0])
    #: the most CPUs per node that it can use; 0 where none were said
    cpus_best: IntArray = from_comment(lambda said: said.cpus and said.cpus[1])
    #: the least memory per node that its owner says it can run with; 0 where none was said
    mem_least_mib: IntArray = from_comment(lambda said: said.mem_mib and said.mem_mib[0])
    #: the most memory per node that it can use; 0 where none was said
    mem_best_mib: IntArray = from_comment(lambda said: said.mem_mib and said.mem_mib[1])
    #: the samples of a step on the GPUs that its owner asked for; 0 where none were said
    batch_least: IntArray = from_comment(lambda said: said.batch and said.batch[0])
    #: the most samples of a step on more GPUs; 0 where none were said
    batch_most: IntArray = from_comment(lambda said: said.batch and said.batch[1])
    #: the deadline in seconds since the moment that ``deadline_since`` names
    deadline_at_s: IntArray = from_comment(lambda said: said.deadline and said.deadline.at_s)
    #: submit, epoch or local (see ``Deadline``); empty where there is no deadline
    deadline_since: Labels = from_comment(lambda said: said.deadline and said.deadline.since)
    #: its owner's rule for an early end: never, opt, acc or loss; empty where none was said
    stop: Labels = from_comment(lambda said: said.stop and said.stop.rule)
    #: opt or acc, what ``stop`` may become while the cluster is overloaded; empty where none was said
    busy: Labels = from_comment(lambda said: said.busy and said.busy.rule)
    #: the types of GPUs that its owner accepts, as a100+v100; empty for any
    types: Labels = from_comment(lambda said: "+".join(said.types))
    #: the graph of its tasks (``text.task_graph``); empty where none was said
    graph: Labels = from_comment(lambda said: said.graph and str(said.graph))
    #: its own steps after a soft deadline, as ``soft_steps`` reads them
    steps: Labels = from_comment(lambda said: steps_text(said.steps))
    #: the GPUs that a share token names, ours or not; empty where there is none
    share_token: Labels = from_comment(lambda said: said.share)
    comment_problem: Labels = from_comment()  #: the first thing wrong with its tokens, in words for its owner

    @property
    def came_s(self) -> FloatArray:
        """The time from which a job counts as the first to come: its first submission, later by ``away_s``.

        A job that is submitted long before it may run, or held for a while, comes before none that waited longer.
        """
        return np.asarray(self.first_submit_s + self.away_s)

    @property
    def slurm_start_s(self) -> FloatArray:
        """Slurm's own estimate of the start of pending jobs, NaN without one.

        Squeue shows the begin time of a job that may not begin yet as its start: a user's, or a hold of ours.
        """
        return np.where(self.started_s == self.eligible_s, np.nan, self.started_s)

    @property
    def suspended_by_us(self) -> BoolArray:
        """The mask of jobs that we have suspended, and resume; those that others suspended are theirs."""
        return np.asarray((self.state == JobState.SUSPENDED) & (self.suspended_s > 0))

    @property
    def limit_after_start_s(self) -> FloatArray:
        """How long after its start Slurm ends each job, as far as it was not suspended by others."""
        return np.asarray(self.time_limit_s + self.paused_s)

    def this_run_s(self, now_s: float) -> FloatArray:
        """Return how long each job has run since it started; 0 where it does not run, or that is not known.

        It does not run while its nodes power up. Slurm omits suspended time, and moves the end of the time limit by as
        much: that of our suspensions is left out too, that of others' is included.
        """
        runs = (self.state != JobState.PENDING) & (self.state != JobState.CONFIGURING)
        ran_s = now_s - np.where(np.isnan(self.started_s), now_s, self.started_s) - self.paused_s
        return np.where(runs, np.maximum(ran_s, 0.0), 0.0)

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


NEUTRAL: dict[str, Any] = {name: one.neutral for name, one in declared(JobTable).items()}
"""The default values of columns; for texts 0 means empty."""

_OF_COMMENTS = {
    name: (one.read, dtype_of(JobTable, name), one.neutral)
    for name, one in declared(JobTable).items()
    if one.by is Filler.COMMENT
}

DERIVED = tuple(name for name, one in declared(JobTable).items() if not one.recorded)
"""Columns that decision records leave out: decoding derives them from the comment."""


def comment_columns(comment: Labels) -> dict[str, Any]:
    """Return the columns of jobs that their owners fill in by *comment*; malformed items count as absent."""
    return columns_of_comments(comment, _OF_COMMENTS)


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
