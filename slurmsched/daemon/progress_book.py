"""The progress that running jobs report, and the answers to their reports."""

from __future__ import annotations

import pwd
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster.filling import Knowing, NewColumns
from ..cluster.jobs import JobState, JobTable
from ..cluster.records.progress import ProgressTable
from ..cluster.state import ClusterState
from ..cluster.text.hostlist import expand
from ..models.progress.iteration_times import IterationTimes
from ..models.progress.learning_curve import LearningCurve
from .profiles.progress_report import ProgressReport, ReportedEarly, ReportRefused

EVERY_S = 20.0  #: minimum time between two reports of a job, unless the settings say otherwise
USER_PER_S = 10.0  #: reports per second from all jobs of one user
USER_BURST = 100.0
NOISES = 5  #: reports whose median gradient noise scale counts: that of single ones varies much


@dataclass
class _Run:
    """A job that runs or ran: the facts that its reports are checked against, and what it reported."""

    user: str
    nodes: str
    restart: int
    iterations: int
    stop: str
    busy: str
    running: bool = True
    waits: bool = False  #: to go on
    curve: LearningCurve = field(default_factory=LearningCurve)
    times: IterationTimes = field(default_factory=IterationTimes)
    noises: deque[float] = field(default_factory=lambda: deque(maxlen=NOISES))
    samples: int = 0  #: of a step
    reported_s: float = -np.inf
    reported_restart: int = -1
    settled: bool = False
    may_end: bool = False


class ProgressBook(Knowing):
    """The progress of running jobs, in memory; safe to call from any thread.

    A restart of the daemon forgets it: a rule about the course of training then needs new reports. A job may report
    every *every_s* seconds.
    """

    def __init__(
        self, monotonic: Callable[[], float], user_of: Callable[[int], str] | None = None, *, every_s: float = EVERY_S
    ) -> None:
        self._monotonic, self._user_of, self.every_s = monotonic, user_of or _user_name, every_s
        self._runs: dict[int, _Run] = {}
        self._quota: dict[str, tuple[float, float]] = {}  # reports left of each user, and since when
        self._lock = threading.Lock()

    def observe(self, state: ClusterState) -> None:
        """Note the running jobs; what others reported is forgotten once they neither wait nor end a run."""
        jobs = state.running
        columns = (jobs.job_id, jobs.state, jobs.restarts, jobs.iterations)
        rows = zip(
            *(column.tolist() for column in columns), jobs.user, jobs.node_list, jobs.stop, jobs.busy, strict=True
        )
        waiting = set(state.pending.job_id.tolist())
        here = waiting | set(jobs.job_id.tolist())
        with self._lock:
            self._runs = {job_id: run for job_id, run in self._runs.items() if job_id in here}
            for job_id, run in self._runs.items():
                run.running, run.waits = False, job_id in waiting
            for job_id, job_state, restart, iterations, user, nodes, stop, busy in rows:
                if job_state != JobState.RUNNING:
                    continue
                if job_id not in self._runs or self._runs[job_id].user != user:
                    self._runs[job_id] = _Run(user, nodes, restart, iterations, stop, busy)
                run = self._runs[job_id]
                run.running, run.nodes, run.restart, run.iterations = True, nodes, restart, iterations
                run.stop, run.busy = stop, busy

    def take(self, report: ProgressReport, uid: int) -> bool:
        """Count a report that user *uid* made; return True if the job should save its work and end for good.

        ReportRefused where it is not theirs, or implausible; ReportedEarly before its time.
        """
        now_s, user = self._monotonic(), self._user_of(uid)
        with self._lock:
            run = self._checked(report, user, uid)
            if (wait_s := run.reported_s + self.every_s - now_s) > 0 and run.reported_restart == report.restart:
                raise ReportedEarly(wait_s)
            self._spend(user, now_s)
            if run.reported_restart != report.restart:
                run.curve.return_to(report.iteration)
                run.times.begin_run()
                run.may_end = False
            elif report.iteration < run.curve.iteration:
                raise ReportRefused("iteration", f"iteration {report.iteration} is before {run.curve.iteration}")
            run.curve.add(report.iteration, report.loss, report.accuracy)
            run.times.add(report.iteration, now_s)
            if np.isfinite(report.noise):
                run.noises.append(report.noise)
            run.samples = report.samples
            run.settled = "opt" in (run.stop, run.busy) and run.curve.settles(run.iterations)
            run.reported_s, run.reported_restart = now_s, report.restart
            return run.may_end

    def _checked(self, report: ProgressReport, user: str, uid: int) -> _Run:
        """Return the run that *report* is about, if it is the owner's, from there and about now."""
        run = self._runs.get(report.job_id)
        if run is None or not (run.running and run.nodes):
            raise ReportRefused("job", f"job {report.job_id} is not running")
        if not user or run.user != user:
            raise ReportRefused("user", f"job {report.job_id} is not of user {uid}")
        if report.node not in expand(run.nodes):
            raise ReportRefused("host", f"job {report.job_id} does not run on {report.node}")
        if run.restart != report.restart:
            raise ReportRefused("restart", f"restart {report.restart} of job {report.job_id} is not the present one")
        if run.iterations and report.iteration > run.iterations:
            raise ReportRefused("iteration", f"iteration {report.iteration} of {run.iterations}")
        return run

    def _spend(self, user: str, now_s: float) -> None:
        left, since_s = self._quota.get(user, (USER_BURST, now_s))
        left = min(USER_BURST, left + (now_s - since_s) * USER_PER_S)
        if left < 1:
            raise ReportedEarly((1 - left) / USER_PER_S + 1)
        self._quota[user] = left - 1, now_s

    def let_end(self, job_ids: Sequence[int]) -> None:
        """Answer reports of these jobs with a stop from now on, and of no others: consent may be withdrawn."""
        may_end = set(job_ids)
        with self._lock:
            for job_id, run in self._runs.items():
                run.may_end = job_id in may_end and run.reported_restart == run.restart

    def table(self) -> ProgressTable:
        """Return the progress of the jobs that reported any in their present run, or in the last one if they wait."""
        with self._lock:
            runs = {
                job_id: run
                for job_id, run in self._runs.items()
                if (run.running or run.waits) and run.reported_restart == run.restart
            }
            curves = [run.curve for run in runs.values()]
            return ProgressTable(
                np.array(list(runs), dtype=np.int64),
                np.array([curve.iteration for curve in curves], dtype=np.int64),
                np.array([curve.accuracy for curve in curves], dtype=np.float64),
                np.array([curve.loss_fall for curve in curves], dtype=np.float64),
                np.array([curve.late_fall for curve in curves], dtype=np.float64),
                np.array([run.running and run.may_end for run in runs.values()], dtype=np.bool_),
                np.array([run.settled for run in runs.values()], dtype=np.bool_),
                np.array([run.times.slowdown for run in runs.values()], dtype=np.float64),
            )

    def columns(self, state: ClusterState) -> NewColumns:
        """Return what jobs whose batch may grow reported of it, also those that wait again: their gradient noise scale,
        and the samples of a step of their present run."""
        return {"pending": self._batches(state.pending), "running": self._batches(state.running)}

    def _batches(self, jobs: JobTable) -> Mapping[str, NDArray[Any]]:
        rows = np.flatnonzero(jobs.batch_most > jobs.batch_least)
        if not len(rows):
            return {}
        noise, samples = np.full(len(jobs), np.nan), np.zeros(len(jobs), dtype=np.int64)
        with self._lock:
            for row in rows.tolist():
                run = self._runs.get(int(jobs.job_id[row]))
                if run is None or run.user != jobs.user[row]:
                    continue
                noise[row] = median(run.noises) if run.noises else np.nan
                samples[row] = run.samples if run.running and run.reported_restart == jobs.restarts[row] else 0
        return {"noise": noise, "step_samples": samples}


def _user_name(uid: int) -> str:
    """Return the name of user *uid*, empty for an unknown one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
