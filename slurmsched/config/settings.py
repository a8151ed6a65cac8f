"""The settings: what an admin can say, each with its default and one line of help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MODES = ("observe", "advise", "act")
SCOPES = ("points", "qos", "queue")
BACKENDS = ("auto", "pyslurm", "command")
SERVES = ("auto", "baseline")
REQUESTS = ("limit", "gpus", "cpus", "nodes")
SIGNALS = ("URG", "USR1", "USR2")


def setting(default: Any, help: str, **rules: Any) -> Any:  # noqa: A002 - the word an admin sees
    """A field with its help line and rules (``choices``, ``least``, ``most``, ``secret``)."""
    return field(default=default, metadata={"help": help, **rules}, repr=not rules.get("secret"))


@dataclass(frozen=True)
class DaemonSettings:
    """``[daemon]``: the beat and where things are kept."""

    mode: str = setting(
        "observe", "observe: look only; advise: also report gains and losses; act: use powers", choices=MODES
    )
    every_s: float = setting(15.0, "seconds from one cycle to the next", least=1, most=3600)
    state_dir: str = setting("/var/lib/slurmsched", "directory for what must survive a restart")
    run_dir: str = setting("/run/slurmsched", "directory for sockets and locks")
    log_level: str = setting("info", "how much to log", choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True)
class SlurmSettings:
    """``[slurm]``: how to reach the cluster."""

    conf: str = setting("", "path of slurm.conf; empty means SLURM_CONF or Slurm's own default")
    bin_dir: str = setting("", "directory of squeue, scontrol, ...; empty means PATH")
    backend: str = setting(
        "auto",
        "auto: pyslurm where it belongs to slurmctld's release, else commands; pyslurm: that or nothing; command",
        choices=BACKENDS,
    )
    allow_untested: bool = setting(False, "act on a Slurm newer than any that was tested; otherwise only observe it")
    timeout_s: float = setting(10.0, "longest wait for one Slurm command", least=0.1, most=300)
    writes_per_s: float = setting(20.0, "updates to slurmctld, sustained", least=0.1, most=1000)
    writes_burst: int = setting(100, "updates to slurmctld in one go", least=1, most=10000)


@dataclass(frozen=True)
class PowerSettings:
    """``[power]``: what ``mode = act`` may do; every power is off until switched on."""

    order: bool = setting(False, "reorder pending jobs through SiteFactor")
    hold: bool = setting(False, "delay pending jobs through a StartTime that expires by itself")
    requeue: bool = setting(False, "requeue running jobs whose owner said slurmsched:ckpt")
    suspend: bool = setting(False, "suspend and resume running jobs")
    partition: bool = setting(False, "move pending jobs between partitions and set their node lists")
    comment: bool = setting(
        False, "write what a deadline was answered into the job's AdminComment; needs SlurmUser's rights"
    )
    profile: bool = setting(False, "serve a partition in which new jobs are measured first ([profile])")
    nodes: bool = setting(False, "move nodes between profile.partition and profile.home; needs SlurmUser's rights")
    share: bool = setting(False, "let jobs that were measured share GPUs, on nodes that are there for it")


@dataclass(frozen=True)
class PolicySettings:
    """``[policy]``: which composition decides."""

    ordering: str = setting(
        "fifo",
        "who runs sooner: fifo (Slurm's own order), sjf, qssf, wfq, ... or a plug-in's name; parameters follow it",
    )
    starvation_s: float = setting(
        604800.0, "a job that waited longer stands only behind jobs that waited longer", least=1, most=31536000
    )


@dataclass(frozen=True)
class OrderSettings:
    """``[order]``: how far our order may go against Slurm's own."""

    scope: str = setting(
        "points", "points: at most max_points; qos: our order within a QOS; queue: our order for all", choices=SCOPES
    )
    max_points: int = setting(
        0,
        "most points a job can get in scope points; 0 means the smallest step between two QOS",
        least=0,
        most=2147483645,
    )
    window: int = setting(
        500, "how many jobs from the top are ordered; the rest keep Slurm's order", least=1, most=100000
    )
    partitions: tuple[str, ...] = setting((), "partitions to order; empty means all")


@dataclass(frozen=True)
class DeadlineSettings:
    """``[deadline]``: promises to jobs that say slurmsched:deadline= in their comment."""

    enabled: bool = setting(False, "answer jobs with deadlines, and order promised ones so that they end in time")
    margin: float = setting(
        0.9, "the share of such runs that end within the runtime that is planned with", least=0.5, most=0.999
    )
    reserve: float = setting(0.05, "of the GPUs, the share that new promises leave free", least=0, most=0.9)
    lead_s: float = setting(
        120.0, "seconds that plans allow Slurm for starting a job that is first in the order", least=0, most=86400
    )
    hold_most_s: float = setting(
        3600.0,
        "seconds that one job is delayed in all so that a promise can be kept; needs power.hold",
        least=0,
        most=1e7,
    )
    user_gpu_hours: float = setting(
        0.0, "most GPU-hours that one user is promised in quota_days; 0 means no limit", least=0, most=1e9
    )
    account_gpu_hours: float = setting(
        0.0, "most GPU-hours that one account is promised in quota_days; 0 means no limit", least=0, most=1e9
    )
    quota_days: float = setting(7.0, "how far back a promise counts against quotas", least=0.01, most=31)
    user_gpus: int = setting(
        0, "most GPUs that one user may ask deadlines for in interval_s; 0 means no limit", least=0, most=1000000
    )
    interval_s: float = setting(3600.0, "the interval of user_gpus in seconds", least=1, most=2678400)
    user_share: float = setting(
        0.5,
        "the most that one user is promised of the GPUs' time until any moment, beside one promise; 1 means no limit",
        least=0.01,
        most=1,
    )
    exempt: tuple[str, ...] = setting((), "users and accounts to whom no quota applies")
    soft_steps: tuple[str, ...] = setting(
        ("80@1.1", "50@1.2", "20@1.5"),
        "what a soft deadline without steps of its own is worth later: per cent at so many times its time",
    )
    yields: bool = setting(
        False, "ask running jobs that said slurmsched:ckpt to make room for promises; needs power.requeue"
    )
    lease_s: float = setting(
        300.0, "seconds that a job runs at least before it is asked to make room, or asked again", least=1, most=86400
    )
    stop_s: float = setting(
        120.0, "seconds that a job gets to save its work before it is requeued", least=1, most=86400
    )
    stop_signal: str = setting(
        "URG",
        "the signal that asks: URG, or USR1 or USR2, which end a program that does not know them",
        choices=SIGNALS,
    )
    asks_a_day: int = setting(4, "how often one job is asked to make room within a day at most", least=0, most=1000)


@dataclass(frozen=True)
class ShareSettings:
    """``[share]``: which jobs share GPUs, and where; see power.share."""

    partition: str = setting("shared", "the partition of the nodes on which GPUs are shared")
    memory_mib: float = setting(
        0.0, "most MiB that two jobs may take of a GPU together: less than it has; 0: nobody shares", least=0, most=1e7
    )
    capacity: int = setting(
        2, "largest sum of share scores on a GPU: 2, or 1 for the lightest jobs only, 0 for nobody", least=0, most=2
    )
    other_users: bool = setting(False, "let jobs of different users share too; they take turns then")
    evict: bool = setting(
        True, "requeue one of two jobs whose load together is unstable, if it said slurmsched:ckpt; needs power.requeue"
    )


@dataclass(frozen=True)
class ForecastSettings:
    """``[forecast]``: where forecasts come from."""

    learn_online: bool = setting(
        True, "learn from jobs as they end; off: only from what the database held at the start"
    )


@dataclass(frozen=True)
class ModelsSettings:
    """``[models]``: what is trained, and whether it serves."""

    directory: str = setting("", "directory of trained models; empty means models in daemon.state_dir")
    serve: str = setting(
        "auto", "auto: the trained model of runtimes, while it is no worse than the baseline; baseline", choices=SERVES
    )
    interpretable_only: bool = setting(True, "train only models that can be read; off: boosted trees are tried too")
    rising: tuple[str, ...] = setting(
        (), "what a job may ask more of without being forecast shorter by the tables", choices=REQUESTS
    )
    train_days: float = setting(365.0, "how many days of history slurmsched train reads", least=1, most=36500)


@dataclass(frozen=True)
class DatabaseSettings:
    """``[database]``: where history and decisions are kept."""

    url: str = setting("", "SQLAlchemy URL; empty means SQLite in daemon.state_dir", secret=True)
    timeout_s: float = setting(5.0, "longest wait for the database in a cycle", least=0.1, most=60)
    keep_decisions_days: float = setting(7.0, "how long cycles can be replayed", least=0.01, most=3650)
    keep_outcomes_days: float = setting(730.0, "how long outcomes of jobs are kept", least=1, most=36500)


@dataclass(frozen=True)
class MetricsSettings:
    """``[metrics]``: the endpoint for /metrics and /healthz."""

    listen: str = setting("127.0.0.1:9817", "loopback address and port, unix:PATH, or empty for none")


@dataclass(frozen=True)
class ProfileSettings:
    """``[profile]``: what compute nodes measure of jobs."""

    listen: str = setting("", "IP address and port where nodes deliver profiles, as 10.0.0.1:9818; empty for none")
    partition: str = setting("profile", "where new jobs may start to be measured, with power.profile")
    n_max: int = setting(8, "most GPUs of a job that is measured there first", least=1, most=100000)
    n_least: int = setting(1, "what n_max falls to while many more jobs than usual come", least=1, most=100000)
    t_s: float = setting(200.0, "seconds after which a job there may be requeued", least=1, most=86400)
    t_least_s: float = setting(60.0, "what t_s falls to while many more jobs than usual come", least=1, most=86400)
    wait_s: float = setting(600.0, "a job that waited longer is not measured first any more", least=0, most=86400)
    home: str = setting("", "the partition that lends nodes to profile.partition and borrows them, with power.nodes")
    nodes_most: int = setting(2, "most nodes of profile.partition beyond as many as its own", least=0, most=10000)


@dataclass(frozen=True)
class PredictSettings:
    """``[predict]``: when jobs will start and finish."""

    enabled: bool = setting(True, "predict when jobs start and finish, in a process of its own; needs the extra sim")
    every_s: float = setting(60.0, "seconds from one prediction to the next at least", least=1, most=86400)
    least: float = setting(0.85, "alarm where fewer jobs end by the moment that nine in ten should", least=0, most=1)
    most: float = setting(0.95, "alarm where more do: the intervals are too wide", least=0, most=1)


@dataclass(frozen=True)
class Settings:
    """All of it. Frozen: a reload makes a new one."""

    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    deadline: DeadlineSettings = field(default_factory=DeadlineSettings)
    share: ShareSettings = field(default_factory=ShareSettings)
    forecast: ForecastSettings = field(default_factory=ForecastSettings)
    models: ModelsSettings = field(default_factory=ModelsSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    predict: PredictSettings = field(default_factory=PredictSettings)
