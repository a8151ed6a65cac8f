"""The form of a report; ``slurmsched schema report`` prints it. Shares are 0..1, null is "not known"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ..models.completion.prediction_accuracy import PredictionAccuracy
from ..models.completion.reliability import GroupReliability, PredictedWaits, ReliabilityPoint
from .trial_effects import TrialFacts


class OfJobs(TypedDict):
    """The jobs of a report; empty texts and 0 choose all."""

    user: str
    account: str
    partition: str
    job_id: int


class GpuHours(TypedDict):
    """GPU-hours in the span: of what jobs held, the measured part, and what it did."""

    runs: int
    held: float
    measured: float
    used: float  #: measured hours, weighted by utilisation
    no_process: float  #: measured, without a process on the GPU
    below: float  #: measured, with processes whose mean utilisation was below 5 %
    unmeasured: float


class GroupHours(GpuHours):
    """The GPU-hours of one account, user, partition or type of GPU."""

    kind: str
    name: str


class SpanHours(TypedDict):
    """The GPU-hours of one day, or of one hour in short reports; the capacity is null where no daemon counted."""

    from_s: float
    held: float
    used: float
    idle: float
    unmeasured: float
    capacity: float | None


class SourceHours(TypedDict):
    """The measured GPU-hours of one source of measurements."""

    source: str
    measured: float
    used: float


class Cluster(TypedDict):
    """What a daemon counted of all GPUs, whoever held them; hours of GPUs."""

    counted_hours: float  #: of the span
    capacity: float
    free: float
    free_while_waiting: float  #: free GPUs, at most as many as jobs waited for
    stranded_cpus: float  #: of them free GPUs that no waiting job could use for want of CPUs
    stranded_memory: float
    stranded_by: Sequence[Stranded]


class Stranded(TypedDict):
    """GPU-hours that stood idle because jobs of a user took more of a node than their GPUs' part."""

    account: str
    user: str
    cpus: float
    memory: float


class IdleRun(TypedDict):
    """A run that held GPUs without a process on them; GPU-hours within the span."""

    job_id: int
    user: str
    account: str
    gpus: int
    no_process: float
    below: float  #: with processes that hardly used them
    running: bool  #: at the last cycle


class IdleHolder(TypedDict):
    """A user whose jobs held GPUs that no process had used for half an hour; GPU-hours from then on."""

    account: str
    user: str
    held: float


class IdleWaiter(TypedDict):
    """A user whose jobs waited though they would have run, had idle GPUs been free; hours."""

    account: str
    user: str
    jobs: int
    waited: float
    waited_gpus: float  #: times the GPUs of these jobs


class IdleHarm(TypedDict):
    """What idle GPUs cost others, by playing the queue forward with them free."""

    held: float  #: GPU-hours
    jobs: int
    waited: float
    waited_gpus: float
    holders: Sequence[IdleHolder]
    waiters: Sequence[IdleWaiter]


class Requests(TypedDict):
    """Requested against used time limits of runs that ended in the span, with one size."""

    size: str  #: empty for all
    runs: int
    asked: float  #: GPU-hours: GPUs times time limit
    held: float  #: GPU-hours of these runs from start to end
    used_p10: float  #: share of the limit that a run lasted
    used_p50: float
    used_p90: float
    timeouts: int


class SoonerRequest(TypedDict):
    """A kind of requests that waited longer than others which asked at the same time for what it needed."""

    user: str
    name: str  #: the constant part of the names of its jobs
    partition: str
    gpus: int
    limit_s: float
    starts: int
    wait_s: float  #: median
    gpus_needed: int
    limit_needed_s: float  #: covers 95 % of such runs
    others: int  #: jobs that it is compared with
    others_wait_s: float  #: median
    saved: float  #: hours that its jobs waited longer, in all


class GpuMemory(TypedDict):
    """The largest use of memory per GPU, over measured runs, GiB."""

    runs: int
    p50: float
    p90: float
    most: float


class CpuHours(TypedDict):
    """CPU-hours that jobs held, and of whole runs that ended in the span and that accounting measured."""

    held: float
    beside_gpus: float  #: of jobs with GPUs
    measured: float  #: held by measured runs
    used: float  #: kept busy by these


class NodeMemory(TypedDict):
    """Memory that runs held beside the most that they used at once; GiB-hours of measured runs."""

    runs: int
    held: float
    used: float  #: as if each run had needed its most all the time
    share_p50: float  #: the most as a share of what the run held
    share_p90: float


class Waits(TypedDict):
    """Waits of jobs that started for the first time in the span, and predictions of those that had one."""

    by: str  #: all, size, account
    name: str
    starts: int
    p50_s: float
    p90_s: float
    most_s: float
    slurm_jobs: int  #: for which Slurm estimated a start beforehand; the rest is of these
    slurm_p50_s: float  #: estimated by Slurm
    real_p50_s: float
    slurm_off_s: float  #: median of |start - Slurm's estimate|
    ours_off_s: float  #: the same for our prediction


class OrderEffect(TypedDict):
    """The change of the work ahead of jobs of an account by our order, with the interval of 90 % of redraws."""

    account: str
    hours: int  #: in which it had jobs
    jobs: float  #: mean number of pending jobs
    change_s: float  #: negative is sooner
    low_s: float
    high_s: float
    sooner: float  #: share of jobs
    later: float


class ReplayedWait(TypedDict):
    """The change of the mean wait of jobs of an account by our order, the queue replayed in the order not in force."""

    account: str  #: empty for all
    hours: int  #: in which its jobs started, or waited longer or shorter
    jobs: float  #: that started
    change_s: float  #: negative is shorter
    low_s: float  #: of 90 % of redraws
    high_s: float
    longer: float  #: hours of waits that jobs have in our order alone
    shorter: float  #: and in Slurm's own alone


class Order(TypedDict):
    """What the order changed (mode act) or would have changed (observe, advise)."""

    mode: str
    hours: float
    accounts: Sequence[OrderEffect]
    replayed: Sequence[ReplayedWait]


class Load(TypedDict):
    """The load of slurmctld in one mode of the daemon, by sdiag."""

    mode: str
    hours: float
    rpcs_per_min: float  #: of everybody
    ours_per_min: float  #: commands that we ran
    rpc_mean_s: float


class Ledger(TypedDict):
    """What slurmsched asked of Slurm, and what Slurm bore."""

    counted_hours: float
    writes: dict[str, int]
    refused: int
    calls: dict[str, int]
    load: Sequence[Load]


class NotMeasured(TypedDict):
    """A figure that a report lacks, and what gives it."""

    what: str
    switch_on: str


class Report(TypedDict):
    """A report on a span of time."""

    cluster: str
    since_s: float
    until_s: float
    of: OfJobs
    jobs: int
    users: int
    running: int
    total: GpuHours
    asked: float
    spans: Sequence[SpanHours]
    sources: Sequence[SourceHours]
    groups: Sequence[GroupHours]
    idle_runs: Sequence[IdleRun]
    idle_harm: IdleHarm | None
    machine: Cluster | None
    requests: Sequence[Requests]
    sooner: Sequence[SoonerRequest]
    gpu_memory: GpuMemory | None
    cpus: CpuHours
    node_memory: NodeMemory | None
    waits: Sequence[Waits]
    accuracy: Sequence[PredictionAccuracy]
    reliability: Sequence[ReliabilityPoint]
    predicted_waits: Sequence[PredictedWaits]
    reliability_by: Sequence[GroupReliability]
    promises: dict[str, int]
    order: Sequence[Order]
    trials: Sequence[TrialFacts]
    ledger: Ledger | None
    not_measured: Sequence[NotMeasured]
