"""Profiles of jobs from Prometheus: which runs are asked about and when, beside the cycles."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from ...child_process import ChildFailed, ChildProcess
from ...clock import Clock, Timer
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.profiles import PROMETHEUS, NodeProfile
from ...cluster.text.hostlist import expanded
from ...config.settings import ProfileSettings
from ...cycle import CycleReport
from ...errors import ConfigError, SlurmschedError
from ...slurm.read.gpu_allocations import SHOW, Allocation, read_allocations
from ..cycle_follower import CycleFollower
from .profile_record import BadRecord, profile_of
from .prometheus_queries import LABEL, Labels, Wanted
from .prometheus_worker import Question

logger = logging.getLogger(__name__)

EVERY_MOST_S = 60.0  #: between two passes
PASS_SCRAPES = 2  #: between two passes, where that is less
EARLY_SCRAPES = 7  #: age of a run at which it is asked about first, then at twice that, and so on
LATE_SCRAPES = 2  #: by which an end has to be over: Prometheus has the last one then
AGAIN_S = 300.0  #: after an answer that failed
PASS_MOST = 100  #: runs in one request
WAIT_S = 60.0  #: for one request
LOOKS = 2  #: at the GPUs of a new run, one in each pass
RUNS_MOST = 20_000  #: in memory
NODES_MOST = 64  #: of a job; wider ones have no profile from here
TOKEN_B = 16 * 1024


@dataclass
class _Run:
    """A run that was seen, and when it is asked about next; infinite where it never is."""

    start_s: float
    seen_s: float
    nodes: tuple[str, ...]
    number: int
    due_s: float
    gpus: Allocation | None = None
    looks: int = 0  #: at what Slurm says of its GPUs, since it is not said any more after the end
    ended: bool = False


class PrometheusProfiles(CycleFollower):
    """Asks Prometheus in a process of its own about runs of jobs that have whole GPUs, and keeps their profiles.

    *query* runs a command of Slurm; *keep* gets profiles. A server that is slow, wrong or away costs these alone.
    """

    leader_only = True

    def __init__(
        self,
        settings: Callable[[], ProfileSettings],
        query: Callable[[Sequence[str]], str],
        keep: Callable[[NodeProfile], None],
        worker: str,
        clock: Clock,
    ) -> None:
        super().__init__("prometheus")
        self._settings, self._query, self._keep, self._clock = settings, query, keep, clock
        self._process = ChildProcess(worker, "profile from Prometheus")
        self._runs: dict[tuple[int, int], _Run] = {}
        self._wait = Timer(clock.monotonic)
        self.trouble = ""  #: why there were no profiles last time; empty if there were

    @property
    def degraded(self) -> str:
        """Why there are no profiles from Prometheus."""
        return f"no profiles from Prometheus: {self.trouble}" if self.trouble else ""

    def _note(self, report: CycleReport) -> bool:
        return bool(self._settings().prometheus_url)

    def _due(self) -> bool:
        return self._wait.due

    def _work(self) -> None:
        report, settings = self._report, self._settings()
        self._wait.put_off(min(PASS_SCRAPES * settings.prometheus_every_s, EVERY_MOST_S))
        if report is None or not settings.prometheus_url:
            return
        self.observe_runs(report.view.running, report.now_s)
        due = self._due_runs(report.now_s)
        if not settings.prometheus_job_label:
            self._allocate(due)
        for key in due:
            self._forget_doubtful(key, settings)
        wanted = [_wanted(key, run) for key in due if (run := self._runs.get(key)) and run.gpus is not None]
        if not wanted:
            return
        error, records = self._process.ask(_question(settings, wanted[:PASS_MOST]), WAIT_S)
        for record in records:
            self._take(record)
        if error:
            raise ChildFailed(error)
        self.trouble = ""
        self._asked([(one.job_id, one.restart) for one in wanted[:PASS_MOST]], report.now_s)

    def observe_runs(self, jobs: JobTable, now_s: float) -> None:
        """Note which runs go on; the others have ended, and are asked about once more."""
        mine = (jobs.gpus > 0) & (jobs.state == JobState.RUNNING) & ~jobs.shares & ~jobs.noprofile & ~jobs.off
        mine &= (jobs.nodes > 0) & (jobs.nodes <= NODES_MOST) & np.isfinite(jobs.started_s)
        going = set()
        for row in np.flatnonzero(mine).tolist():
            key = int(jobs.job_id[row]), int(jobs.restarts[row])
            going.add(key)
            if (run := self._runs.get(key)) is not None and not run.ended:
                run.seen_s = now_s
            elif len(self._runs) < RUNS_MOST:
                start_s, nodes = float(jobs.started_s[row]), expanded(jobs.node_list[row])
                self._runs[key] = _Run(start_s, now_s, nodes, int(jobs.gpus[row]), start_s + self._early_s)
        for key, run in self._runs.items():
            if key not in going and not run.ended:
                run.ended, run.due_s = True, run.seen_s + LATE_SCRAPES * self._settings().prometheus_every_s

    @property
    def _early_s(self) -> float:
        """The age of a run at which it has enough samples for a profile."""
        return EARLY_SCRAPES * self._settings().prometheus_every_s

    def _due_runs(self, now_s: float) -> list[tuple[int, int]]:
        """Return the runs to ask about: those that ended first, and those that wait for long."""
        due = [(not run.ended, run.due_s, key) for key, run in self._runs.items() if run.due_s <= now_s]
        return [key for _, _, key in sorted(due)]

    def _allocate(self, due: Collection[tuple[int, int]]) -> None:
        """Read which GPUs the running jobs have, if one that is new or *due* has none yet."""
        open_runs = {key: run for key, run in self._runs.items() if not run.ended and run.gpus is None}
        if not any(run.looks < LOOKS or key in due for key, run in open_runs.items()):
            return
        nodes_of = {job_id: run.nodes for (job_id, _), run in self._runs.items() if not run.ended}
        told = read_allocations(self._query(SHOW), nodes_of)
        for (job_id, _), run in open_runs.items():
            run.looks += 1
            gpus = told.get(job_id, {})
            run.gpus = gpus if all(gpus.values()) and sum(map(len, gpus.values())) == run.number else None

    def _forget_doubtful(self, key: tuple[int, int], settings: ProfileSettings) -> None:
        """Ask no more about a run whose GPUs are not known for certain."""
        run = self._runs[key]
        if settings.prometheus_job_label:
            run.gpus = dict.fromkeys(run.nodes, ())
        elif run.gpus is None:
            if run.ended:
                del self._runs[key]
            else:
                run.due_s = run.start_s + 2.0 * max(self._early_s, run.seen_s - run.start_s)

    def _asked(self, keys: Sequence[tuple[int, int]], now_s: float) -> None:
        for key in keys:
            run = self._runs[key]
            if run.ended:
                del self._runs[key]
            else:
                run.due_s = run.start_s + 2.0 * max(self._early_s, now_s - run.start_s)

    def _take(self, record: dict[str, object]) -> None:
        try:
            profile = profile_of(record, self._clock.now())
        except BadRecord as error:
            logger.info("a profile from Prometheus is not taken: %s; profile.prometheus_every_s may be wrong", error)
            return
        # No exporter says whether a process used a GPU.
        self._keep(replace(profile, process_share=math.nan, source=PROMETHEUS))

    def _failed(self, error: SlurmschedError) -> None:
        if str(error) != self.trouble:
            logger.warning("no profiles from Prometheus: %s", error)
        self.trouble = str(error)
        self._wait.put_off(AGAIN_S)
        for key in [key for key, run in self._runs.items() if run.ended and run.due_s < self._clock.now() - 3600.0]:
            del self._runs[key]

    def _abandon(self) -> None:
        self._process.close()


def _wanted(key: tuple[int, int], run: _Run) -> Wanted:
    assert run.gpus is not None
    return Wanted(*key, int(run.start_s), int(max(run.seen_s, run.start_s + 1.0)), run.gpus, run.number)


def _question(settings: ProfileSettings, runs: Sequence[Wanted]) -> Question:
    return Question(
        settings.prometheus_url,
        settings.prometheus_exporter,
        Labels(settings.prometheus_node_label, settings.prometheus_job_label),
        settings.prometheus_every_s,
        runs,
        _token(settings.prometheus_token_file),
        settings.prometheus_ca,
        settings.prometheus_certificate,
        settings.prometheus_key,
    )


def _token(path: str) -> str:
    """Read the token anew each time, since it is renewed; ConfigError where that fails."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            text = file.read(TOKEN_B).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"profile.prometheus_token_file cannot be read: {type(error).__name__}") from error
    if not text.isprintable() or " " in text:
        raise ConfigError("profile.prometheus_token_file holds no token: one line without blanks is accepted")
    return text


def demand_valid_prometheus(settings: ProfileSettings) -> None:
    """Raise ConfigError where Prometheus could not be asked."""
    if not settings.prometheus_url:
        return
    try:
        parts = urlsplit(settings.prometheus_url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        fine = fine and not parts.query and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError(
            f"profile.prometheus_url is {settings.prometheus_url!r}; accepted: http:// or https:// with a host, "
            "without a name, password or query in it"
        )
    for name in ("node", "job"):
        label = getattr(settings, f"prometheus_{name}_label")
        if not LABEL.fullmatch(label) and (label or name == "node"):
            raise ConfigError(f"profile.prometheus_{name}_label is {label!r}; accepted: the name of a label")
    secret = settings.prometheus_token_file or settings.prometheus_certificate
    if secret and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(
            "profile.prometheus_url is http://, where a token could be read on the way, and a certificate is of no "
            "use; write https://, or remove profile.prometheus_token_file and prometheus_certificate"
        )
