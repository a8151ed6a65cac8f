"""The settings of powers and policies, and all sections together."""

from __future__ import annotations

from dataclasses import dataclass, field

from .levels import basic, expert, power
from .service_settings import (
    ClientSettings,
    DaemonSettings,
    DatabaseSettings,
    ForecastSettings,
    MetricsSettings,
    ModelsSettings,
    NoticesSettings,
    PredictSettings,
    RemoteSettings,
    ReportSettings,
    SlurmSettings,
    WebSettings,
)

AUTOS = ("advise", "act")
ACROSS = ("account", "all")
SCOPES = ("points", "qos", "queue")
DIVISIONS = ("optimus", "pollux", "sia")
SIGNALS = ("URG", "USR1", "USR2")


@dataclass(frozen=True)
class PowerSettings:
    """``[power]``: the powers of ``mode = act``; every power is off until switched on."""

    order: bool = basic(False, "reorder pending jobs through SiteFactor")
    hold: bool = basic(False, "delay pending jobs through a StartTime that expires by itself")
    requeue: bool = power(False, "requeue running jobs with slurmsched:ckpt in their comment")
    stop: bool = power(
        False, "end jobs with slurmsched:stop= in their comment once their training has reached what it asks for"
    )
    suspend: bool = expert(
        False,
        "suspend one of two jobs that take turns on shared GPUs and harm each other, in turns. Needs power.share",
        needs="share",
    )
    partition: bool = power(False, "move pending jobs between partitions and set their node lists")
    comment: bool = power(False, "write the answer to a deadline into the job's AdminComment. Needs SlurmUser's rights")
    profile: bool = power(False, "measure new jobs first, in a partition of their own ([profile])")
    nodes: bool = power(False, "move nodes between profile.partition and profile.home. Needs SlurmUser's rights")
    steer: bool = power(False, "send pending jobs without a GPU type to one, by excluding nodes ([steer])")
    migrate: bool = power(
        False, "ask running jobs with slurmsched:ckpt to leave overloaded nodes ([migrate]). Needs power.requeue"
    )
    rightsize: bool = power(False, "give pending jobs the CPUs and memory that jobs of their kind use ([rightsize])")
    resize: bool = power(False, "change the number of GPUs of jobs with gpus=A-B and ckpt in their comment ([resize])")
    share: bool = power(False, "let measured jobs share GPUs, on nodes set aside for it ([share])")


@dataclass(frozen=True)
class PolicySettings:
    """``[policy]``: the policy that decides."""

    ordering: str = basic(
        "fifo",
        "order of the queue: fifo (Slurm's own), sjf, qssf, wfq, ..., the name of a plug-in, or auto, which chooses"
        " one from time to time. Parameters follow the name",
    )
    shadow: str = expert(
        "", "an ordering to watch without applying it: each cycle records the jobs it would run. Empty: none"
    )
    auto: str = expert(
        "advise", "what ordering = auto does with its choice. advise: record it. act: also switch", choices=AUTOS
    )
    preset: str = basic("", "a named composition in place of an ordering. Empty: none")
    admission: str = power(
        "accept-all", "jobs that may start. accept-all. load:X: up to X times the cluster's GPUs; needs power.hold"
    )
    interactive_gpu_hours: float = expert(
        2.0, "GPU-hours per day, by time limits, for which a user's interactive jobs pass load:X", least=0, most=1000000
    )
    interactive_names: tuple[str, ...] = expert(
        ("sys/dashboard/*", "*/sys/dashboard/*"),
        "names of batch jobs that are interactive sessions, with * and ?. The default is those of Open OnDemand",
    )
    selection: str = expert("slurm", "who selects the jobs that start. On a cluster Slurm does: slurm")
    placement: str = expert("slurm", "who chooses the nodes of jobs. On a cluster Slurm does: slurm")
    preemption: str = expert(
        "least-loss", "which jobs with ckpt yield. least-loss: to promises. lease 20m: also to the order. never"
    )
    stopping: str = power(
        "owner-rule",
        "who may end early, with power.stop. owner-rule: by slurmsched:stop= in the comment. mlf-c: also by"
        " slurmsched:busy= while the cluster is overloaded. never: nobody",
    )
    profiling: str = expert("new-jobs", "which jobs are measured first, and on which nodes, with power.profile")
    powers: tuple[str, ...] = power(
        (), "powers of plug-ins that take part. Each needs the powers whose actions it wants (hold, steer, requeue)"
    )
    sharing: str = expert(
        "indolent", "who shares GPUs with whom, where power.share and [share] allow it: indolent, none, or a plug-in"
    )
    starvation_s: float = power(
        604800.0,
        "seconds after which a waiting job stands behind only those that waited longer",
        least=1,
        most=31536000,
    )


@dataclass(frozen=True)
class MlfsSettings:
    """``[mlfs]``: the ordering mlfs-h."""

    across: str = expert(
        "account",
        "jobs that mlfs-h compares by deadline, urgency, dependencies and reports: of one account, or all",
        choices=ACROSS,
    )


@dataclass(frozen=True)
class OrderSettings:
    """``[order]``: limits on our order against Slurm's own."""

    scope: str = power(
        "points",
        "how far our order goes. points: at most max_points. qos: within a QOS. queue: all jobs",
        choices=SCOPES,
    )
    max_points: int = expert(
        0, "most points a job can get in scope points. 0: the smallest step between two QOS", least=0, most=2147483645
    )
    window: int = expert(
        500, "number of jobs at the top that are ordered. The rest keep Slurm's order", least=1, most=100000
    )
    partitions: tuple[str, ...] = basic((), "partitions to order. Empty: all")


@dataclass(frozen=True)
class DeadlineSettings:
    """``[deadline]``: promises to jobs with slurmsched:deadline= in their comment."""

    enabled: bool = power(
        False, "promise deadlines that can be met, and order the promised jobs so that they end in time"
    )
    margin: float = expert(
        0.9, "share of comparable runs that end within the runtime a promise plans for", least=0.5, most=0.999
    )
    reserve: float = power(0.05, "share of the GPUs that new promises leave free", least=0, most=0.9)
    foreseen: float = expert(
        1.0,
        "part of the GPUs that smaller jobs with deadlines asked for in the last day which promises leave to such jobs",
        least=0,
        most=1,
    )
    long_share: float = expert(
        1.0,
        "most of the GPUs, as a share, for long jobs with neither promise nor ckpt while promised jobs wait. Needs"
        " power.hold",
        least=0,
        most=1,
    )
    long_s: float = expert(14_400.0, "planned seconds above which a job is long", least=60, most=1e7)
    lead_s: float = expert(
        120.0, "seconds that plans give Slurm to start the first job in the order", least=0, most=86400
    )
    hold_most_s: float = power(
        3600.0, "longest delay of one job for the sake of promises, in seconds. Needs power.hold", least=0, most=1e7
    )
    user_gpu_hours: float = power(
        0.0, "most GPU-hours promised to one user in quota_days. 0: no limit", least=0, most=1e9
    )
    account_gpu_hours: float = power(
        0.0, "most GPU-hours promised to one account in quota_days. 0: no limit", least=0, most=1e9
    )
    quota_days: float = power(7.0, "days for which a promise counts against quotas", least=0.01, most=31)
    user_gpus: int = power(
        0, "most GPUs for which one user may request deadlines in interval_s. 0: no limit", least=0, most=1000000
    )
    interval_s: float = expert(3600.0, "length of the interval of user_gpus, in seconds", least=1, most=2678400)
    user_share: float = power(
        0.5,
        "most of the GPU time until any moment, as a share, promised to one user who has more than one promise. 1:"
        " no limit",
        least=0.01,
        most=1,
    )
    exempt: tuple[str, ...] = power((), "users and accounts without quotas")
    soft_steps: tuple[str, ...] = expert(
        ("80@1.1", "50@1.2", "20@1.5"), "value of a late soft deadline without own steps: PERCENT@MULTIPLE of its time"
    )
    yields: bool = power(
        False, "ask running jobs with slurmsched:ckpt to make room for promised ones. Needs power.requeue"
    )
    lease_s: float = power(
        300.0, "least seconds that a job runs before it is asked to make room, or asked again", least=1, most=86400
    )
    promised_lease_s: float = expert(
        300.0, "least seconds that a promised job runs before it is asked to yield to another", least=1, most=86400
    )
    stop_s: float = power(120.0, "seconds that a job gets to save its work before it is requeued", least=1, most=86400)
    stop_signal: str = power(
        "URG",
        "signal that asks a job to save its work. Programs that do not handle it ignore URG, and end by USR1 and USR2",
        choices=SIGNALS,
    )
    asks_a_day: int = expert(4, "most requests per day that one job make room", least=0, most=1000)
    slack_s: float = expert(
        0.0, "seconds before their promised end by which promised jobs should end where possible", least=0, most=864000
    )
    restart_s: float = expert(
        60.0, "seconds that plans count for a job to go on from its saved work", least=0, most=86400
    )
    restart_doubling_s: float = expert(
        30.0,
        "further seconds that plans count for that with each doubling of its GPUs",
        least=0,
        most=86400,
    )
    again_s: float = expert(
        600.0, "seconds after which a refused deadline is tried again by itself. 0: never", least=0, most=864000
    )
    solver_s: float = expert(
        0.0,
        "seconds after a cycle in which the solver looks for room for refused jobs. 0: no solver",
        least=0,
        most=3600,
    )


@dataclass(frozen=True)
class ShareSettings:
    """``[share]``: jobs that share GPUs, and their nodes; see power.share."""

    partition: str = power("shared", "partition of the nodes on which GPUs are shared")
    memory_mib: float = power(
        0.0, "most MiB of a GPU that two jobs may use together, below its total. 0: no sharing", least=0, most=1e7
    )
    capacity: int = expert(
        3,
        "highest sum of share scores on a GPU. 3: all but two of the heaviest. 1: only the lightest. 0: none",
        least=0,
        most=3,
    )
    least_speed: float = power(
        0.8, "least mean speed expected of two jobs beside each other, as a fraction of that alone", least=0, most=1
    )
    least_speed_each: float = power(
        0.65, "least speed expected of each of two jobs beside the other, as a fraction of that alone", least=0, most=1
    )
    accounts: tuple[str, ...] = power((), "accounts whose jobs share. Empty: all")
    optin: bool = power(False, "share only jobs with slurmsched:pack in their comment")
    other_users: bool = power(False, "also share between jobs of different users. These take turns on the GPU")
    links: tuple[str, ...] = expert(
        (), "links between the GPUs of a node there, a text for each GPU as Links= of gres.conf. Empty: not known"
    )
    evict: bool = expert(
        True, "requeue one of two jobs whose joint load is unstable, if it has slurmsched:ckpt. Needs power.requeue"
    )
    suspend_most_s: float = expert(
        300.0,
        "longest suspension at a time of a job that harms another on its GPUs (power.suspend)",
        least=10,
        most=86_400,
    )


@dataclass(frozen=True)
class StopSettings:
    """``[stop]``: stops of running jobs, whatever they are for; see power.requeue."""

    most_requeues: int = power(
        0,
        "requeues, as Slurm counts them, after which a job is asked to stop no more. 0: no limit",
        least=0,
        most=1_000_000,
    )


@dataclass(frozen=True)
class SteerSettings:
    """``[steer]``: untyped jobs that are sent to a type of GPU; see power.steer."""

    patience_s: float = power(
        86400.0, "seconds that a job waits for its type of GPU; then it may use any", least=1, most=1e7
    )
    again_s: float = expert(
        14400.0, "seconds after which a job that was let go may be sent to a type again", least=0, most=1e7
    )
    least_gain: float = power(
        1.1, "least speed on the fastest type of GPU over that on the slowest for a job to be sent", least=1, most=100
    )


@dataclass(frozen=True)
class MigrateSettings:
    """``[migrate]``: jobs that leave overloaded nodes; see power.migrate."""

    overload: float = power(
        0.9, "share of its CPUs, memory or GPUs in use above which a node is overloaded", least=0.01, most=10
    )
    for_s: float = power(
        600.0, "seconds that a node must stay overloaded before its jobs are asked to leave", least=0, most=86400
    )
    every_s: float = expert(3600.0, "seconds between two requests to the same job", least=60, most=1e7)
    patience_s: float = expert(
        600.0, "seconds that a job waits for another place before it may start where it was", least=1, most=86400
    )


@dataclass(frozen=True)
class RightsizeSettings:
    """``[rightsize]``: CPUs and memory of pending jobs; see power.rightsize."""

    accounts: tuple[str, ...] = power(
        (), "accounts whose jobs are sized by what earlier runs of their kind used. Jobs of others only by their tokens"
    )
    margin: float = power(0.25, "headroom above the peak use of earlier runs, as a fraction", least=0, most=10)
    least_change: float = expert(
        0.1, "smallest change that is written, as a fraction of the present value", least=0, most=1
    )
    again_s: float = expert(600.0, "seconds between two changes of a job", least=0, most=1e7)
    history_days: float = expert(30.0, "days of accounting to read at the start", least=0, most=3650)
    despite_limits: bool = expert(
        False, "size jobs even where Slurm then no longer holds them to limits of CPUs and memory"
    )


@dataclass(frozen=True)
class ResizeSettings:
    """``[resize]``: jobs that run on different numbers of GPUs; see power.resize."""

    least_s: float = power(
        600.0, "seconds between two times that a job gets more GPUs, or stops for another number", least=1, most=1e7
    )
    restart_s: float = power(
        120.0, "assumed cost of a restart until one was measured; jobs stop only for a larger gain", least=0, most=1e6
    )
    doubling: float = expert(
        1.8, "assumed speed of a job on twice as many GPUs, until its kind was measured", least=1, most=2
    )
    nodes: bool = expert(
        False, "also change the number of nodes of jobs on several nodes. Slurm then holds these to no limit of CPUs"
    )
    division: str = power(
        "optimus",
        "who gets free GPUs. optimus: the jobs whose remaining time they shorten most. pollux, sia: by the mean of"
        " speed-ups",
        choices=DIVISIONS,
    )


PROMETHEUS_EXPORTERS = ("dcgm", "nvidia_gpu_exporter", "jobstats")


@dataclass(frozen=True)
class ProfileSettings:
    """``[profile]``: measurements of jobs by compute nodes."""

    listen: str = power("", "IP address and port where nodes deliver profiles, as 10.0.0.1:9818. Empty: none")
    token_user: str = expert("", "user whose tokens nodes deliver with, through remote.listen. Empty: root alone")
    report_s: float = expert(20.0, "least seconds between two reports of a job on its progress", least=1, most=3600)
    partition: str = power("profile", "partition where new jobs are measured first, with power.profile")
    n_max: int = power(8, "most GPUs of a job that is measured first", least=1, most=100000)
    n_least: int = expert(1, "lowest n_max while many more jobs than usual arrive", least=1, most=100000)
    t_s: float = power(200.0, "seconds after which a job there may be requeued", least=1, most=86400)
    t_least_s: float = expert(60.0, "lowest t_s while many more jobs than usual arrive", least=1, most=86400)
    wait_s: float = expert(
        600.0, "seconds of waiting after which a job is no longer measured first", least=0, most=86400
    )
    home: str = power("", "partition that lends nodes to profile.partition and borrows them, with power.nodes")
    nodes_most: int = power(2, "most nodes of profile.partition beyond its own", least=0, most=10000)
    prometheus_url: str = power("", "Prometheus with the GPU metrics of nodes, as https://host:9090. Empty: none")
    prometheus_exporter: str = power("dcgm", "exporter whose metrics Prometheus has", choices=PROMETHEUS_EXPORTERS)
    prometheus_node_label: str = power("instance", "label of those metrics that holds the node, also as NODE:PORT")
    prometheus_job_label: str = expert("", "label that holds the job, as hpc_job. Empty: by node and number of the GPU")
    prometheus_every_s: float = power(30.0, "seconds between two scrapes of the exporters", least=1, most=600)
    prometheus_token_file: str = expert("", "file with the bearer token for Prometheus. Empty: no token")
    prometheus_ca: str = expert("", "file with the authority of the certificate of Prometheus. Empty: the system's")
    prometheus_certificate: str = expert("", "file with our certificate for Prometheus. Empty: none")
    prometheus_key: str = expert("", "file with the key of that certificate. Empty: in the same file")


@dataclass(frozen=True)
class TrialSettings:
    """``[trial]``: blocks of time with and without the policy, by ``slurmsched trial``."""

    block_s: float = power(14_400.0, "length of a block, in seconds", least=600, most=604_800)
    washout_s: float = power(3600.0, "first part of each block that is not counted, in seconds", least=0, most=302_400)
    harm_s: float = power(
        1800.0, "more mean wait of an account that ends a trial, in seconds; 0 for no bound", least=0, most=604_800
    )


@dataclass(frozen=True)
class Settings:
    """All settings. Frozen: a reload makes a new instance."""

    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    mlfs: MlfsSettings = field(default_factory=MlfsSettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    deadline: DeadlineSettings = field(default_factory=DeadlineSettings)
    share: ShareSettings = field(default_factory=ShareSettings)
    stop: StopSettings = field(default_factory=StopSettings)
    steer: SteerSettings = field(default_factory=SteerSettings)
    migrate: MigrateSettings = field(default_factory=MigrateSettings)
    rightsize: RightsizeSettings = field(default_factory=RightsizeSettings)
    resize: ResizeSettings = field(default_factory=ResizeSettings)
    forecast: ForecastSettings = field(default_factory=ForecastSettings)
    models: ModelsSettings = field(default_factory=ModelsSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    predict: PredictSettings = field(default_factory=PredictSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    trial: TrialSettings = field(default_factory=TrialSettings)
    web: WebSettings = field(default_factory=WebSettings)
    notices: NoticesSettings = field(default_factory=NoticesSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
