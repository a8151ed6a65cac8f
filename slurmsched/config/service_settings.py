"""The settings of the daemon and of what it speaks to: Slurm, the database, users, nodes, models."""

from __future__ import annotations

from dataclasses import dataclass

from .levels import basic, expert, power

MODES = ("observe", "advise", "act")


LOG_FORMATS = ("text", "json")


BACKENDS = ("auto", "pyslurm", "command")


SERVES = ("auto", "baseline")


REQUESTS = ("limit", "gpus", "cpus", "nodes")


CHANNELS = ("sendmail", "webhook", "apprise")


NOTICES = (
    *("promise-given", "promise-refused", "promise-doubt", "promise-broken", "idle", "evicted", "moved"),
    *("accuracy", "degraded", "database"),
)


@dataclass(frozen=True)
class DaemonSettings:
    """``[daemon]``: the cycle, files and the log."""

    mode: str = basic(
        "observe", "observe: write nothing. advise: also report who would gain and lose. act: use powers", choices=MODES
    )
    every_s: float = basic(15.0, "seconds from one cycle to the next", least=1, most=3600)
    state_dir: str = basic("/var/lib/slurmsched", "directory for data that survives a restart")
    run_dir: str = expert("/run/slurmsched", "directory for sockets and locks")
    log_level: str = basic("info", "lowest level of log messages", choices=("debug", "info", "warning", "error"))
    log_format: str = expert(
        "text", "text, or json: one object per message, after a bug with its traceback", choices=LOG_FORMATS
    )


@dataclass(frozen=True)
class SlurmSettings:
    """``[slurm]``: access to the cluster."""

    conf: str = basic("", "path of slurm.conf. Empty: SLURM_CONF or Slurm's own default")
    bin_dir: str = basic("", "directory of squeue, scontrol and the rest. Empty: PATH")
    backend: str = expert(
        "auto",
        "how Slurm is read. auto: pyslurm where it matches slurmctld's release, else commands. pyslurm: only"
        " pyslurm. command: only commands",
        choices=BACKENDS,
    )
    allow_untested: bool = expert(False, "act on a Slurm newer than any that was tested. Off: only observe it")
    timeout_s: float = expert(10.0, "longest wait for one Slurm command, in seconds", least=0.1, most=300)
    gpu_parts: str = expert(
        "",
        "types of GPUs that are parts of one, as small=1/4,1g.20gb=0.25: each counts as that part in GPU-hours and"
        " metrics. Other MIG profiles count by their name, 1g.10gb as 1/7",
    )
    writes_per_s: float = expert(20.0, "updates to slurmctld per second, sustained", least=0.1, most=1000)
    writes_burst: int = expert(100, "updates to slurmctld in one go", least=1, most=10000)


@dataclass(frozen=True)
class ForecastSettings:
    """``[forecast]``: the sources of forecasts."""

    learn_online: bool = expert(True, "learn from jobs as they end. Off: only from the database, at the start")


@dataclass(frozen=True)
class ModelsSettings:
    """``[models]``: trained models and their use."""

    directory: str = expert("", "directory of trained models. Empty: models in daemon.state_dir")
    serve: str = expert(
        "auto",
        "the model that forecasts runtimes. auto: the trained one while it is no worse than the baseline. baseline:"
        " never a trained one",
        choices=SERVES,
    )
    interpretable_only: bool = expert(True, "train only models that people can read. Off: also try boosted trees")
    rising: tuple[str, ...] = expert(
        (), "requests whose increase never shortens a job's forecast by the tables", choices=REQUESTS
    )
    train_days: float = expert(365.0, "days of history that slurmsched train reads", least=1, most=36500)


@dataclass(frozen=True)
class DatabaseSettings:
    """``[database]``: the store of history and decisions."""

    url: str = basic("", "SQLAlchemy URL. Empty: SQLite in daemon.state_dir", secret=True)
    timeout_s: float = expert(5.0, "longest wait for the database in a cycle, in seconds", least=0.1, most=60)
    keep_decisions_days: float = basic(7.0, "days for which cycles can be replayed", least=0.01, most=3650)
    keep_outcomes_days: float = basic(730.0, "days for which ended jobs are kept", least=1, most=36500)


@dataclass(frozen=True)
class MetricsSettings:
    """``[metrics]``: the endpoint for /metrics and /healthz."""

    listen: str = basic(
        "127.0.0.1:9817", "loopback address and port, or unix:PATH; with certificate any IP address. Empty: none"
    )
    certificate: str = expert("", "PEM file with the server's certificate and its chain. It switches TLS on")
    key: str = expert("", "PEM file with the private key. Empty: it is in certificate")
    client_ca: str = expert("", "PEM file with the authority of the scrapers' certificates")
    scrapers: tuple[str, ...] = expert((), "DNS names in the certificates of clients that may read metrics through TLS")


@dataclass(frozen=True)
class PredictSettings:
    """``[predict]``: predicted starts and finishes of jobs."""

    enabled: bool = basic(True, "predict when jobs start and finish, in a separate process. Needs the extra sim")
    every_s: float = expert(60.0, "least seconds between predictions", least=1, most=86400)
    least: float = expert(
        0.85, "alarm if a smaller share of jobs ends by the time predicted for nine in ten", least=0, most=1
    )
    most: float = expert(
        0.95, "alarm if a larger share of jobs ends by then: the intervals are too wide", least=0, most=1
    )


@dataclass(frozen=True)
class RemoteSettings:
    """``[remote]``: users on other hosts who ask the daemon."""

    listen: str = basic("", "IP address and port for other hosts, as 10.0.0.1:9819; without certificate only loopback")
    certificate: str = basic("", "PEM file with the server's certificate and its chain")
    key: str = basic("", "PEM file with the private key. Empty: it is in certificate")
    munge: bool = expert(True, "accept munge credentials of users")
    token_key: str = expert(
        "", "file with Slurm's key of tokens (jwt_hs256.key). Whoever reads it can make tokens of any user"
    )
    token_jwks: str = expert("", "file with the public keys of tokens (jwks of auth/jwt)")
    token_claim: str = expert("sun", "claim of a token with the user's name (userclaimfield of auth/jwt)")
    token_audience: str = expert("", "audience that tokens must name. Empty: tokens that name one are refused")
    client_ca: str = expert("", "PEM file with the authority of the services' certificates")
    services: tuple[str, ...] = expert((), "DNS names in certificates of services that may ask for any user but root")


@dataclass(frozen=True)
class ClientSettings:
    """``[client]``: commands on a host without a daemon."""

    server: str = basic("", "HOST:PORT of the daemon to ask where no socket is. SLURMSCHED_SERVER overrides it")
    ca: str = basic("", "PEM file with the authority of the daemon's certificate. Empty: the system's")
    munge_socket: str = expert("", "socket of munged. Empty: munge's own default")
    certificate: str = expert("", "PEM file with the certificate of a service, which asks for $SLURMSCHED_AS")
    key: str = expert("", "PEM file with its private key. Empty: it is in certificate")


@dataclass(frozen=True)
class ReportSettings:
    """``[report]``: what reports need beside the rest."""

    usage: bool = basic(
        False, "read from accounting every five minutes what ended runs used of CPUs and memory, for reports"
    )


@dataclass(frozen=True)
class WebSettings:
    """``[web]``: the questions of users over HTTP, by ``slurmsched web``."""

    listen: str = basic(
        "127.0.0.1:9820",
        "address of this host alone and port, for users with tokens of Slurm; a proxy in front of it does TLS. Empty: "
        "none",
    )
    proxy_socket: str = power(
        "", "unix socket for a proxy that names users in X-Remote-User, on the daemon's host. Empty: none"
    )
    proxy_user: str = power("", "unix user of that proxy: nobody else gets in at proxy_socket")
    socket: str = power("", "unix socket for the users of the daemon's host, whom the kernel names. Empty: none")
    user: str = power(
        "", "unix user of slurmsched web, which names users to the daemon. Empty: the daemon takes no named user"
    )
    operators: tuple[str, ...] = power(
        (), "of the users whom web.user names, those that see what operators see, if they are operators in Slurm too"
    )


@dataclass(frozen=True)
class NoticesSettings:
    """``[notices]``: messages to owners of jobs and to admins."""

    enabled: bool = basic(False, "send notices")
    channel: str = basic(
        "sendmail",
        "sendmail: mail by a program; webhook: JSON by HTTP POST; apprise: services that Apprise knows",
        choices=CHANNELS,
    )
    kinds: tuple[str, ...] = power((), "kinds of notices that are sent; empty: all", choices=NOTICES)
    owners: bool = power(True, "send to owners of jobs; false: to admins alone")
    domain: str = basic("", "domain of the addresses of users whose job has no --mail-user; empty: these get none")
    admins: tuple[str, ...] = basic((), "mail addresses of admins")
    sender: str = basic("", "address that mail is from")
    sendmail: str = expert("/usr/sbin/sendmail", "program that takes mail as sendmail does")
    webhook: str = basic("", "URL of the webhook", secret=True)
    apprise: str = power(
        "",
        "URLs of Apprise with blanks between them; {recipient} in one stands for an owner's address",
        secret=True,
    )
    per_hour: int = expert(
        6, "most notices to one reader in an hour; the next one says how many were left out", least=1, most=1000
    )
    moved_s: float = expert(
        3600.0, "seconds by which a predicted start has to move for a notice", least=60, most=864_000
    )
    templates: str = expert("", "directory with templates of the site, notice-KIND.txt, that win over the shipped ones")
