"""The settings of slurmsched, each with its default and one line of help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MODES = ("observe", "advise", "act")
LOG_FORMATS = ("text", "json")
AUTOS = ("advise", "act")
ACROSS = ("account", "all")
SCOPES = ("points", "qos", "queue")
BACKENDS = ("auto", "pyslurm", "command")
SERVES = ("auto", "baseline")
DIVISIONS = ("optimus", "pollux", "sia")
REQUESTS = ("limit", "gpus", "cpus", "nodes")
SIGNALS = ("URG", "USR1", "USR2")


def setting(default: Any, help: str, **rules: Any) -> Any:  # noqa: A002 - the word an admin sees
    """Return a field with its help line and rules (``choices``, ``least``, ``most``, ``secret``)."""
    return field(default=default, metadata={"help": help, **rules}, repr=not rules.get("secret"))


@dataclass(frozen=True)
class DaemonSettings:
    """``[daemon]``: the cycle, files and the log."""

    mode: str = setting(
        "observe", "observe: write nothing; advise: also report gains and losses; act: use powers", choices=MODES
    )
    every_s: float = setting(15.0, "seconds from one cycle to the next", least=1, most=3600)
    state_dir: str = setting("/var/lib/slurmsched", "directory for data that must survive a restart")
    run_dir: str = setting("/run/slurmsched", "directory for sockets and locks")
    log_level: str = setting("info", "lowest level of log messages", choices=("debug", "info", "warning", "error"))
    log_format: str = setting(
        "text",
        "text, or json: each message one object with time, level, logger, message and, after a bug, traceback",
        choices=LOG_FORMATS,
    )


@dataclass(frozen=True)
class SlurmSettings:
    """``[slurm]``: access to the cluster."""

    conf: str = setting("", "path of slurm.conf; empty means SLURM_CONF or Slurm's own default")
    bin_dir: str = setting("", "directory of squeue, scontrol, ...; empty means PATH")
    backend: str = setting(
        "auto",
        "auto: pyslurm where it matches slurmctld's release, else commands; pyslurm: only pyslurm; command",
        choices=BACKENDS,
    )
    allow_untested: bool = setting(False, "act on a Slurm newer than any that was tested; otherwise only observe it")
    timeout_s: float = setting(10.0, "longest wait for one Slurm command", least=0.1, most=300)
    gpu_parts: str = setting(
        "",
        "types of GPUs that are parts of one, as small=1/4,1g.20gb=0.25: what one counts as in GPU-hours and metrics;"
        " MIG profiles that it does not name count by their name, 1g.10gb as 1/7",
    )
    writes_per_s: float = setting(20.0, "updates to slurmctld, sustained", least=0.1, most=1000)
    writes_burst: int = setting(100, "updates to slurmctld in one go", least=1, most=10000)


@dataclass(frozen=True)
class PowerSettings:
    """``[power]``: the powers of ``mode = act``; every power is off until switched on."""

    order: bool = setting(False, "reorder pending jobs through SiteFactor")
    hold: bool = setting(False, "delay pending jobs through a StartTime that expires by itself")
    requeue: bool = setting(False, "requeue running jobs with slurmsched:ckpt in their comment")
    stop: bool = setting(False, "let jobs with slurmsched:stop= end once their training has what this asks for")
    suspend: bool = setting(False, "suspend and resume running jobs; no part of a policy does so yet")
    partition: bool = setting(False, "move pending jobs between partitions and set their node lists")
    comment: bool = setting(
        False, "write the answer to a deadline into the job's AdminComment; needs SlurmUser's rights"
    )
    profile: bool = setting(False, "serve a partition in which new jobs are measured first ([profile])")
    nodes: bool = setting(False, "move nodes between profile.partition and profile.home; needs SlurmUser's rights")
    steer: bool = setting(False, "send untyped pending jobs to a type of GPU, through excluded nodes ([steer])")
    migrate: bool = setting(
        False, "ask running jobs with slurmsched:ckpt to leave overloaded nodes ([migrate]); needs power.requeue"
    )
    rightsize: bool = setting(False, "give pending jobs the CPUs and memory that their kind uses ([rightsize])")
    resize: bool = setting(
        False, "change the number of GPUs of jobs with gpus=A-B and ckpt in their comment ([resize])"
    )
    share: bool = setting(False, "let measured jobs share GPUs, on nodes set aside for sharing")


@dataclass(frozen=True)
class PolicySettings:
    """``[policy]``: the policy that decides."""

    ordering: str = setting(
        "fifo",
        "order of the queue: fifo (Slurm's own order), sjf, qssf, wfq, ..., a plug-in's name, or auto, which chooses"
        " one from time to time; parameters follow it",
    )
    shadow: str = setting(
        "",
        "a second ordering of which cycles only record which jobs it would run now; explain has a job's place in it;"
        " empty for none",
    )
    auto: str = setting(
        "advise", "what ordering = auto does with its choice: advise only records it, act also switches", choices=AUTOS
    )
    preset: str = setting("", "a named composition in place of an ordering; empty for none")
    admission: str = setting(
        "accept-all",
        "jobs that are considered: accept-all, or load:X for X times the GPUs there are; needs power.hold",
    )
    interactive_gpu_hours: float = setting(
        2.0,
        "GPU-hours a day for which interactive jobs of a user pass the line of such an admission, by their time limits",
        least=0,
        most=1000000,
    )
    interactive_names: tuple[str, ...] = setting(
        ("sys/dashboard/*", "*/sys/dashboard/*"),
        "names of batch jobs that are interactive sessions too, with * and ?; by default those of Open OnDemand",
    )
    selection: str = setting("slurm", "jobs that start; on a cluster Slurm starts them: slurm")
    placement: str = setting("slurm", "nodes of jobs; on a cluster Slurm chooses them: slurm")
    preemption: str = setting(
        "least-loss",
        "jobs with ckpt that yield: least-loss to promises (deadline.yields), lease 20m to the order too, never",
    )
    stopping: str = setting(
        "owner-rule",
        "who may end early, with power.stop: owner-rule, by the rule in slurmsched:stop=; mlf-c, also by that in "
        "slurmsched:busy= while the cluster is overloaded; never",
    )
    profiling: str = setting(
        "new-jobs", "choice of the jobs that are measured first, and of the nodes for that, with power.profile"
    )
    powers: tuple[str, ...] = setting(
        (), "powers of plug-ins that take part; each needs the powers whose actions it wants (hold, steer, requeue)"
    )
    sharing: str = setting(
        "indolent",
        "who shares GPUs with whom, where power.share and [share] allow it: indolent, none or a plug-in's name",
    )
    starvation_s: float = setting(
        604800.0,
        "a job that waited longer than this many seconds is behind only jobs that waited longer still",
        least=1,
        most=31536000,
    )


@dataclass(frozen=True)
class MlfsSettings:
    """``[mlfs]``: the ordering mlfs-h."""

    across: str = setting(
        "account",
        "the jobs among which deadline, urgency, graph and reports of a job move it: those of its account, or all",
        choices=ACROSS,
    )


@dataclass(frozen=True)
class OrderSettings:
    """``[order]``: limits on our order against Slurm's own."""

    scope: str = setting(
        "points", "points: at most max_points; qos: our order within a QOS; queue: our order for all", choices=SCOPES
    )
    max_points: int = setting(
        0,
        "maximum points of a job in scope points; 0 means the smallest step between two QOS",
        least=0,
        most=2147483645,
    )
    window: int = setting(
        500, "number of jobs at the top that are ordered; the rest keep Slurm's order", least=1, most=100000
    )
    partitions: tuple[str, ...] = setting((), "partitions to order; empty means all")


@dataclass(frozen=True)
class DeadlineSettings:
    """``[deadline]``: promises to jobs with slurmsched:deadline= in their comment."""

    enabled: bool = setting(False, "answer jobs with deadlines, and order promised ones so that they end in time")
    margin: float = setting(0.9, "share of comparable runs that end within the planned runtime", least=0.5, most=0.999)
    reserve: float = setting(0.05, "share of the GPUs that new promises leave free", least=0, most=0.9)
    kept_back: float = setting(
        0.0,
        "further share that promises to the largest jobs without ckpt leave free, for a day after a want of GPUs",
        least=0,
        most=1,
    )
    long_share: float = setting(
        1.0,
        "maximum share of the GPUs of long jobs without a promise or ckpt while promised ones wait; needs power.hold",
        least=0,
        most=1,
    )
    long_s: float = setting(14_400.0, "planned seconds above which a job is long", least=60, most=1e7)
    lead_s: float = setting(
        120.0, "seconds that plans allow Slurm to start the first job in the order", least=0, most=86400
    )
    hold_most_s: float = setting(
        3600.0,
        "maximum total delay of one job for the sake of promises, in seconds; needs power.hold",
        least=0,
        most=1e7,
    )
    user_gpu_hours: float = setting(
        0.0, "maximum GPU-hours promised to one user in quota_days; 0 means no limit", least=0, most=1e9
    )
    account_gpu_hours: float = setting(
        0.0, "maximum GPU-hours promised to one account in quota_days; 0 means no limit", least=0, most=1e9
    )
    quota_days: float = setting(7.0, "number of days for which a promise counts against quotas", least=0.01, most=31)
    user_gpus: int = setting(
        0,
        "maximum GPUs for which one user may request deadlines in interval_s; 0 means no limit",
        least=0,
        most=1000000,
    )
    interval_s: float = setting(3600.0, "the interval of user_gpus in seconds", least=1, most=2678400)
    user_share: float = setting(
        0.5,
        "maximum share of the GPUs' time up to any moment promised to one user, beside one promise; 1 means no limit",
        least=0.01,
        most=1,
    )
    exempt: tuple[str, ...] = setting((), "users and accounts exempt from quotas")
    soft_steps: tuple[str, ...] = setting(
        ("80@1.1", "50@1.2", "20@1.5"),
        "value of a late soft deadline without steps of its own: PERCENT@MULTIPLE of its time",
    )
    yields: bool = setting(
        False, "ask running jobs with slurmsched:ckpt to make room for promises; needs power.requeue"
    )
    lease_s: float = setting(
        300.0, "minimum seconds that a job runs before it is asked to make room, or asked again", least=1, most=86400
    )
    promised_lease_s: float = setting(
        1200.0,
        "minimum seconds that a promised job runs before it is asked to make room for another",
        least=1,
        most=86400,
    )
    stop_s: float = setting(
        120.0, "seconds that a job gets to save its work before it is requeued", least=1, most=86400
    )
    stop_signal: str = setting(
        "URG",
        "the signal sent for this: URG, or USR1 or USR2, which end a program that does not handle them",
        choices=SIGNALS,
    )
    asks_a_day: int = setting(4, "maximum requests per day that one job make room", least=0, most=1000)
    slack_s: float = setting(
        0.0, "seconds before their promised end by which promised jobs are to end where they can", least=0, most=864000
    )
    restart_s: float = setting(
        60.0, "planned seconds that it costs a job to go on from its saved work", least=0, most=86400
    )
    again_s: float = setting(
        600.0, "seconds after which a refused job is asked again by itself; 0 for never", least=0, most=864000
    )
    solver_s: float = setting(
        0.0,
        "seconds for the solver after a cycle, which seeks a place for refused jobs beside all promises; 0 for none",
        least=0,
        most=3600,
    )


@dataclass(frozen=True)
class ShareSettings:
    """``[share]``: jobs that share GPUs, and their nodes; see power.share."""

    partition: str = setting("shared", "the partition of the nodes on which GPUs are shared")
    memory_mib: float = setting(
        0.0, "maximum MiB of a GPU that two jobs may use together, below its total; 0: no sharing", least=0, most=1e7
    )
    capacity: int = setting(
        3,
        "maximum sum of share scores on a GPU, an upper bound: 3 for all but two of the heaviest, 2, 1 for the lightest"
        " jobs only, 0 for none",
        least=0,
        most=3,
    )
    least_speed: float = setting(
        0.8,
        "mean of the speeds, relative to alone, that two jobs must be expected to keep beside each other",
        least=0,
        most=1,
    )
    least_speed_each: float = setting(
        0.65,
        "speed, relative to alone, that each of two jobs must be expected to keep beside the other",
        least=0,
        most=1,
    )
    accounts: tuple[str, ...] = setting((), "accounts whose jobs share; none: those of all accounts")
    optin: bool = setting(False, "let only jobs with slurmsched:pack share")
    other_users: bool = setting(False, "let jobs of different users share too; these take turns on the GPU")
    links: tuple[str, ...] = setting(
        (),
        "links between the GPUs of a node there, a text for each GPU as Links= of gres.conf; none: unknown",
    )
    evict: bool = setting(
        True, "requeue one of two jobs with an unstable joint load, if it has slurmsched:ckpt; needs power.requeue"
    )


@dataclass(frozen=True)
class StopSettings:
    """``[stop]``: stops of running jobs, whatever they are for; see power.requeue."""

    most_requeues: int = setting(
        0,
        "requeues, as Slurm counts them, after which a job is not asked to stop any more; 0 means no limit",
        least=0,
        most=1_000_000,
    )


@dataclass(frozen=True)
class SteerSettings:
    """``[steer]``: untyped jobs that are sent to a type of GPU; see power.steer."""

    patience_s: float = setting(
        86400.0, "seconds after which a job whose type is full is let go to any type", least=1, most=1e7
    )
    again_s: float = setting(14400.0, "seconds after which such a job may be sent to a type again", least=0, most=1e7)
    least_gain: float = setting(
        1.1, "least speed of a job on its fastest type over that on its slowest for it to be sent", least=1, most=100
    )


@dataclass(frozen=True)
class MigrateSettings:
    """``[migrate]``: jobs that leave overloaded nodes; see power.migrate."""

    overload: float = setting(
        0.9, "the part of its CPUs, memory or GPUs in use above which a node is overloaded", least=0.01, most=10
    )
    for_s: float = setting(600.0, "seconds for which a node has to be overloaded", least=0, most=86400)
    every_s: float = setting(3600.0, "seconds between two requests to the same job to leave", least=60, most=1e7)
    patience_s: float = setting(
        600.0, "seconds that a job waits for another place before it may start where it was", least=1, most=86400
    )


@dataclass(frozen=True)
class RightsizeSettings:
    """``[rightsize]``: CPUs and memory of pending jobs; see power.rightsize."""

    accounts: tuple[str, ...] = setting(
        (), "accounts whose jobs are sized by what runs of their kind used; others only by their tokens"
    )
    margin: float = setting(0.25, "beyond what such runs used at most, as a part of it", least=0, most=10)
    least_change: float = setting(
        0.1, "the least change that is written, as a part of the present value", least=0, most=1
    )
    again_s: float = setting(600.0, "seconds between two changes of a job", least=0, most=1e7)
    history_days: float = setting(30.0, "days of accounting that are read at the start", least=0, most=3650)
    despite_limits: bool = setting(
        False, "size jobs although Slurm then no longer holds them to limits of CPUs and memory"
    )


@dataclass(frozen=True)
class ResizeSettings:
    """``[resize]``: jobs that run on different numbers of GPUs; see power.resize."""

    least_s: float = setting(
        600.0,
        "seconds between two times that a job gets more GPUs, or is stopped for another number",
        least=1,
        most=1e7,
    )
    restart_s: float = setting(
        120.0,
        "seconds that a restart costs a job where none was seen yet; a job is stopped for more",
        least=0,
        most=1e6,
    )
    doubling: float = setting(
        1.8, "speed of a job on twice as many GPUs, where its kind is not known on several numbers", least=1, most=2
    )
    nodes: bool = setting(
        False, "change the number of nodes of jobs on several nodes too; Slurm then holds these to no limit of CPUs"
    )
    division: str = setting(
        "optimus",
        "who gets free GPUs: optimus: those whose remaining time they shorten most; pollux, sia: by means of speed-ups",
        choices=DIVISIONS,
    )


@dataclass(frozen=True)
class ForecastSettings:
    """``[forecast]``: the sources of forecasts."""

    learn_online: bool = setting(True, "learn from jobs as they end; off: only from the database at the start")


@dataclass(frozen=True)
class ModelsSettings:
    """``[models]``: trained models and their use."""

    directory: str = setting("", "directory of trained models; empty means models in daemon.state_dir")
    serve: str = setting(
        "auto", "auto: the trained runtime model, while it is no worse than the baseline; baseline", choices=SERVES
    )
    interpretable_only: bool = setting(True, "train only models that people can read; off: also try boosted trees")
    rising: tuple[str, ...] = setting(
        (), "requests whose increase never shortens a job's forecast by the tables", choices=REQUESTS
    )
    train_days: float = setting(365.0, "days of history that slurmsched train reads", least=1, most=36500)


@dataclass(frozen=True)
class DatabaseSettings:
    """``[database]``: the store of history and decisions."""

    url: str = setting("", "SQLAlchemy URL; empty means SQLite in daemon.state_dir", secret=True)
    timeout_s: float = setting(5.0, "longest wait for the database in a cycle", least=0.1, most=60)
    keep_decisions_days: float = setting(7.0, "days for which cycles can be replayed", least=0.01, most=3650)
    keep_outcomes_days: float = setting(730.0, "days for which outcomes of jobs are stored", least=1, most=36500)


@dataclass(frozen=True)
class MetricsSettings:
    """``[metrics]``: the endpoint for /metrics and /healthz."""

    listen: str = setting(
        "127.0.0.1:9817", "loopback address and port, unix:PATH, or empty for none; any IP address with certificate"
    )
    certificate: str = setting("", "file with the server's certificate and its chain, PEM; it switches TLS on")
    key: str = setting("", "file with its private key, PEM; empty means in certificate")
    client_ca: str = setting("", "file with the authority of the certificates of scrapers, PEM")
    scrapers: tuple[str, ...] = setting((), "DNS names in certificates of clients that may read metrics through TLS")


@dataclass(frozen=True)
class ProfileSettings:
    """``[profile]``: measurements of jobs by compute nodes."""

    listen: str = setting("", "IP address and port where nodes deliver profiles, as 10.0.0.1:9818; empty for none")
    token_user: str = setting("", "user whose tokens nodes deliver with, through remote.listen; empty: root alone")
    report_s: float = setting(20.0, "minimum seconds between two reports of a job on its progress", least=1, most=3600)
    partition: str = setting("profile", "the partition where new jobs are measured first, with power.profile")
    n_max: int = setting(8, "maximum GPUs of a job that is measured there first", least=1, most=100000)
    n_least: int = setting(1, "lower limit of n_max while many more jobs than usual arrive", least=1, most=100000)
    t_s: float = setting(200.0, "seconds after which a job there may be requeued", least=1, most=86400)
    t_least_s: float = setting(60.0, "lower limit of t_s while many more jobs than usual arrive", least=1, most=86400)
    wait_s: float = setting(
        600.0, "seconds of waiting after which a job is no longer measured first", least=0, most=86400
    )
    home: str = setting("", "the partition that lends nodes to profile.partition and borrows them, with power.nodes")
    nodes_most: int = setting(2, "maximum nodes of profile.partition beyond the number of its own", least=0, most=10000)


@dataclass(frozen=True)
class PredictSettings:
    """``[predict]``: predicted starts and finishes of jobs."""

    enabled: bool = setting(True, "predict when jobs start and finish, in a separate process; needs the extra sim")
    every_s: float = setting(60.0, "minimum seconds between predictions", least=1, most=86400)
    least: float = setting(
        0.85, "alarm if a smaller share of jobs ends by the time predicted for nine in ten", least=0, most=1
    )
    most: float = setting(0.95, "alarm if a larger share does: the intervals are too wide", least=0, most=1)


@dataclass(frozen=True)
class RemoteSettings:
    """``[remote]``: users on other hosts who ask the daemon."""

    listen: str = setting("", "IP address and port for them, as 10.0.0.1:9819; without certificate only loopback")
    certificate: str = setting("", "file with the server's certificate and its chain, PEM")
    key: str = setting("", "file with its private key, PEM; empty means in certificate")
    munge: bool = setting(True, "accept munge credentials of users")
    token_key: str = setting(
        "", "file with Slurm's key of tokens (jwt_hs256.key); whoever reads it can make tokens of any user"
    )
    token_jwks: str = setting("", "file with the public keys of tokens (jwks of auth/jwt)")
    token_claim: str = setting("sun", "the claim of a token with the user's name (userclaimfield of auth/jwt)")
    token_audience: str = setting("", "the audience that tokens must name; empty: tokens that name one are refused")
    client_ca: str = setting("", "file with the authority of the services' certificates, PEM")
    services: tuple[str, ...] = setting((), "DNS names in certificates of services that may ask for any user but root")


@dataclass(frozen=True)
class ClientSettings:
    """``[client]``: commands on a host without a daemon."""

    server: str = setting("", "HOST:PORT of the daemon to ask where no socket is; SLURMSCHED_SERVER overrides it")
    ca: str = setting("", "file with the authority of its certificate, PEM; empty means the system's")
    munge_socket: str = setting("", "socket of munged; empty means munge's own default")
    certificate: str = setting("", "file with the certificate of a service, PEM; it asks for $SLURMSCHED_AS")
    key: str = setting("", "file with its private key, PEM; empty means in certificate")


@dataclass(frozen=True)
class ReportSettings:
    """``[report]``: what reports need beside the rest."""

    usage: bool = setting(
        False,
        "read every five minutes from accounting what ended runs used of CPUs and memory, and keep it for reports",
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
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
