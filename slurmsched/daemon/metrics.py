"""Prometheus metrics. No label ever holds a user's text: users, accounts and job names stay out."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from .. import __version__
from ..cluster.columns import FloatArray, IntArray
from ..cluster.gpu_amounts import gpus_of_nodes
from ..cluster.jobs import JobTable
from ..cluster.reasons import reason_of
from ..cluster.state import View
from ..config import MODES
from ..cycle import CycleReport
from ..explain.eta import Coverage
from ..models.runtime.guarded import Drift
from .forecast_accuracy import ForecastTracker
from .loop import BeatResult

CYCLE_S = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
PHASE_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WAIT_S = (10.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)
ERROR_S = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 259200.0)
ERROR_RATIO = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 100.0)
PARTS_MOST = 32  #: distinct values of the label ``part``; what comes later is counted as "other"
BUG = "bug"


class Metrics:
    """The daemon's metrics in a registry of their own, fed after each cycle and by the Slurm adapter's calls.

    *policy* names the ordering in force; *trained_until_s* is the end of the history the serving model learnt from;
    *drift* compares a trained model with the baseline, None where there is none; *raised* counts users whose forecasts
    are raised.
    """

    def __init__(
        self,
        policy: Callable[[], str],
        trained_until_s: Callable[[], float],
        drift: Callable[[], Drift | None] = lambda: None,
        raised: Callable[[], int] = lambda: 0,
    ) -> None:
        self.registry = CollectorRegistry()
        self._policy, self._trained_until_s, self._drift = policy, trained_until_s, drift
        self._raised = raised
        self._accuracy = ForecastTracker()
        self._parts: set[str] = set()
        self._run: IntArray | None = None
        self._declare_cycle(self.registry)
        self._declare_cluster(self.registry)
        self._declare_state(self.registry)
        self._declare_models(self.registry)
        self._declare_predictions(self.registry)
        self._declare_synthesis(self.registry)

    def _declare_cycle(self, to: CollectorRegistry) -> None:
        self._cycles = Counter("slurmsched_cycles", "Cycles by how they ended.", ["result"], registry=to)
        for result in ("ok", "failed", "bug"):
            self._cycles.labels(result)
        self._cycle_s = Histogram(
            "slurmsched_cycle_duration_seconds", "How long whole cycles took.", registry=to, buckets=CYCLE_S
        )
        self._phase_s = Histogram(
            "slurmsched_cycle_phase_duration_seconds",
            "How long each phase of a cycle took.",
            ["phase"],
            registry=to,
            buckets=PHASE_S,
        )
        self._decide_s = Counter(
            "slurmsched_decide_seconds", "Processor time of decisions, by part.", ["part"], registry=to
        )
        self._last = Gauge(
            "slurmsched_last_cycle_timestamp_seconds", "When the last good cycle began, Unix time.", registry=to
        )
        self._decisions = Counter("slurmsched_decisions", "Actions sent to Slurm.", ["policy", "action"], registry=to)
        self._refused = Counter("slurmsched_actions_refused", "Actions that Slurm refused.", registry=to)
        self._deferred = Gauge(
            "slurmsched_writes_deferred", "Wanted writes the token bucket left for later cycles.", registry=to
        )
        self._order_lag_s = Gauge(
            "slurmsched_order_lag_seconds",
            "The longest time that a pending job has lacked the points it should have.",
            registry=to,
        )
        self._window = Gauge("slurmsched_order_window_jobs", "How many jobs from the top are ordered.", registry=to)
        self._calls = Counter("slurmsched_slurm_calls", "Calls to Slurm.", ["command", "result"], registry=to)
        self._call_s = Histogram(
            "slurmsched_slurm_call_duration_seconds",
            "How long calls to Slurm took.",
            ["command"],
            registry=to,
            buckets=CALL_S,
        )
        self._profiles = Counter("slurmsched_profile_records", "Records of nodes, by result.", ["result"], registry=to)
        self._remote = Counter(
            "slurmsched_remote_requests", "Requests from other hosts, by result.", ["result"], registry=to
        )
        self._notices = Counter(
            "slurmsched_notices", "Notices to owners and admins, by what became of them.", ["result"], registry=to
        )
        self._scrapes = Counter(
            "slurmsched_metrics_requests", "Requests for metrics and health, by result.", ["result"], registry=to
        )
        self._progress = Counter(
            "slurmsched_progress_reports", "Reports of jobs about their training, by result.", ["result"], registry=to
        )

    def _declare_cluster(self, to: CollectorRegistry) -> None:
        self._solver = Counter(
            "slurmsched_solver_answers",
            "Cycles with an answer of the solver, followed or dropped, and problems without an answer (none).",
            ["result"],
            registry=to,
        )
        self._shadow_failures = Counter(
            "slurmsched_shadow_failures", "Decisions of the ordering in shadow that failed.", registry=to
        )
        self._pending = Gauge("slurmsched_pending_jobs", "Pending jobs; an array counts once.", registry=to)
        self._running = Gauge("slurmsched_running_jobs", "Jobs that have started and not ended.", registry=to)
        self._ranked = Gauge("slurmsched_ranked_jobs", "Pending jobs that we order.", registry=to)
        self._unknown_reasons = Counter(
            "slurmsched_unknown_reason_jobs",
            "Pending jobs to which Slurm has given a reason that we do not know, as it came.",
            registry=to,
        )
        self._of_unknown_reason: set[tuple[int, str]] = set()
        self._starving = Gauge(
            "slurmsched_starving_jobs", "Pending jobs that waited longer than policy.starvation_s.", registry=to
        )
        self._wait_s = Histogram(
            "slurmsched_wait_seconds",
            "How long jobs waited between their first submission and their first start.",
            registry=to,
            buckets=WAIT_S,
        )
        self._gpus = Gauge(
            "slurmsched_gpus",
            "GPUs of the cluster, by state; a slice counts as its part (slurm.gpu_parts).",
            ["state"],
            registry=to,
        )
        self._idle_gpus = Gauge(
            "slurmsched_idle_gpus", "GPUs that jobs hold and no process has used for half an hour.", registry=to
        )
        self._idle_waiting = Gauge(
            "slurmsched_idle_waiting_jobs", "Pending jobs that would run, had idle GPUs been free.", registry=to
        )
        self._idle_wait_s = Counter(
            "slurmsched_idle_wait_seconds", "How long jobs waited that would have run on idle GPUs.", registry=to
        )
        self._guests = Gauge("slurmsched_guest_jobs", "Jobs that run on the GPUs of another job.", registry=to)
        self._shared_gpus = Gauge("slurmsched_shared_gpus", "GPUs on which two jobs run.", registry=to)
        self._shared_faults = Counter(
            "slurmsched_shared_faults", "Jobs that failed together with a job on the same GPUs.", registry=to
        )
        self._promises = Gauge(
            "slurmsched_promises",
            "Deadlines requested in the last 32 days, by state.",
            ["state"],
            registry=to,
        )
        self._error_ratio = Histogram(
            "slurmsched_forecast_error_ratio",
            "|forecast - runtime| / runtime of runs that ended.",
            registry=to,
            buckets=ERROR_RATIO,
        )
        self._coverage = Gauge(
            "slurmsched_forecast_interval_coverage_ratio",
            "Share of the last 1000 runs that ended inside their 80 % interval.",
            registry=to,
        )
        self._coverage.set(float("nan"))

    def _declare_state(self, to: CollectorRegistry) -> None:
        self._mode = Gauge("slurmsched_mode", "1 for the mode in force, 0 for the others.", ["mode"], registry=to)
        for mode in MODES:
            self._mode.labels(mode)
        self._paused = Gauge("slurmsched_paused", "1 while an admin has paused us.", registry=to)
        self._leader = Gauge("slurmsched_leader", "1 while this daemon steers the cluster.", registry=to)
        self._database = Gauge("slurmsched_database_available", "1 while the database can be written to.", registry=to)
        self._fallback = Gauge(
            "slurmsched_fallback_active", "1 while a part works in a reduced way.", ["part"], registry=to
        )
        self._model_age = Gauge(
            "slurmsched_model_age_seconds", "Age of the newest history that the active model learnt from.", registry=to
        )
        self._model_age.set(float("nan"))
        build = Info("slurmsched_build", "What is running.", registry=to)
        build.info({"version": __version__, "python": platform.python_version()})

    def _declare_models(self, to: CollectorRegistry) -> None:
        help_text = "by the trained model and by the baseline, over the last runs the trained one was not fitted to."
        self._loss = Gauge("slurmsched_model_pinball_loss", f"Of log runtime {help_text}", ["model"], registry=to)
        self._done_by = Gauge(
            "slurmsched_model_coverage_ratio", f"Runs done by the 90 % bound {help_text}", ["model"], registry=to
        )
        self._worse = Gauge(
            "slurmsched_model_drifted",
            "1 while the trained model is clearly worse and the baseline is active.",
            registry=to,
        )

        self._overrunners = Gauge(
            "slurmsched_forecast_raised_users",
            "Users whose jobs are ranked as longer because runs went far beyond their forecasts.",
            registry=to,
        )

    def _declare_predictions(self, to: CollectorRegistry) -> None:
        self._predictions = Gauge(
            "slurmsched_prediction_coverage_ratio",
            "Share of jobs of the last 30 days that met the first time predicted for nine in ten.",
            ["of"],
            registry=to,
        )
        self._prediction_error_s = Histogram(
            "slurmsched_prediction_error_seconds",
            "Time between the predicted and the real start or finish of a job, early or late.",
            ["of"],
            registry=to,
            buckets=ERROR_S,
        )
        self._uncovered = Gauge(
            "slurmsched_prediction_coverage_alarm", "1 while the share of finishes is outside its band.", registry=to
        )

    def _declare_synthesis(self, to: CollectorRegistry) -> None:
        self._synthesis = Counter(
            "slurmsched_synthesis_decisions",
            "Decisions among compositions: kept, advised, switched, or lost with the database.",
            ["result"],
            registry=to,
        )
        self._synthesis_failed = Counter(
            "slurmsched_synthesis_failures", "States that were not played forward under the compositions.", registry=to
        )
        self._synthesis_s = Gauge(
            "slurmsched_synthesis_duration_seconds", "How long the last forecast of all compositions took.", registry=to
        )
        self._synthesis_s.set(float("nan"))

    def synthesis_step(self, result: str) -> None:
        """Count one decision among compositions."""
        self._synthesis.labels(result).inc()

    def synthesis_played(self, took_s: float) -> None:
        """Note how long a forecast of compositions took; NaN for one that failed."""
        if math.isnan(took_s):
            self._synthesis_failed.inc()
        else:
            self._synthesis_s.set(took_s)

    def predictions(self, coverage: Coverage, alarm: bool) -> None:
        """Set the coverage of predictions; called from another thread than the rest."""
        self._predictions.labels("start").set(coverage.started_by)
        self._predictions.labels("finish").set(coverage.done_by)
        self._uncovered.set(alarm)

    def prediction_errors(self, of: str, errors_s: FloatArray) -> None:
        """Count predictions of a start or a finish, early or late by so many seconds; called from another thread."""
        for error_s in errors_s.tolist():
            self._prediction_error_s.labels(of).observe(error_s)

    def _compared(self) -> None:
        drift = self._drift()
        self._worse.set(drift is not None and drift.worse)
        if drift is None or not drift.runs:
            self._loss.clear()
            self._done_by.clear()
            return
        for model, loss, coverage in (
            ("trained", drift.model, drift.model_coverage),
            ("baseline", drift.baseline, drift.baseline_coverage),
        ):
            self._loss.labels(model).set(loss)
            self._done_by.labels(model).set(coverage)

    def turn(self, turn: BeatResult) -> None:
        """Count a cycle that ended, successful or not."""
        self._cycles.labels("ok" if turn.ok else "bug" if turn.bug else "failed").inc()
        self._cycle_s.observe(turn.took_s)
        self._model_age.set(turn.now_s - self._trained_until_s())
        self._compared()
        self._overrunners.set(self._raised())
        if turn.ok:
            self._last.set(turn.now_s)
        if turn.report is not None:
            self._report(turn.report)

    def state(self, *, mode: str, paused: bool, leader: bool, database: bool, bug: bool) -> None:
        """Set the daemon's current state."""
        for name in MODES:
            self._mode.labels(name).set(name == mode)
        self._paused.set(paused)
        self._leader.set(leader)
        self._database.set(database)
        self._fallback.labels(BUG).set(bug)

    def slurm_call(self, command: str, result: str, took_s: float) -> None:
        """Count one call: *command* is a program's name, *result* ok, refused or unavailable."""
        self._calls.labels(command, result).inc()
        self._call_s.labels(command).observe(took_s)

    def idle_gpus(self, gpus: int, waiting: int, waited_s: float) -> None:
        """Set how many GPUs jobs hold without a process, who waits for them, and add how long; from another thread."""
        self._idle_gpus.set(gpus)
        self._idle_waiting.set(waiting)
        self._idle_wait_s.inc(waited_s)

    def profile_record(self, result: str) -> None:
        """Count one delivery of a node: ok, or the reason for its refusal."""
        self._profiles.labels(result).inc()

    def shared_fault(self) -> None:
        """Count a job that failed together with another on its GPUs."""
        self._shared_faults.inc()

    def remote_request(self, result: str) -> None:
        """Count a request of another host: answered, or why it was refused."""
        self._remote.labels(result).inc()

    def notice(self, result: str) -> None:
        """Count a notice: sent, failed, limited, nobody, old; called from another thread than the rest."""
        self._notices.labels(result).inc()

    def scrape(self, result: str) -> None:
        """Count a request for metrics or health."""
        self._scrapes.labels(result).inc()

    def progress_report(self, result: str) -> None:
        """Count one report of a job: ok, stop, later, or the reason for its refusal."""
        self._progress.labels(result).inc()

    def shadow_failed(self) -> None:
        """Count one failure of the ordering in shadow."""
        self._shadow_failures.inc()

    def no_solver_answer(self) -> None:
        """Count one problem that the solver did not answer."""
        self._solver.labels("none").inc()

    def _report(self, report: CycleReport) -> None:
        if len(report.view.solved):
            self._solver.labels("followed" if report.plan.solved else "dropped").inc()
        for phase, took_s in report.phases_s.items():
            self._phase_s.labels(phase).observe(took_s)
        for part, took_s in report.decided_s.items():
            self._decide_s.labels(part).inc(took_s)
        for action, count in report.actions.items():
            self._decisions.labels(self._policy(), action).inc(count)
        self._refused.inc(report.refused)
        self._deferred.set(report.deferred)
        self._order_lag_s.set(report.order_lag_s)
        self._window.set(report.window)
        self._fallbacks(report.fallbacks)
        for state, count in report.plan.promises.counts().items():
            self._promises.labels(state).set(count)
        self._pending.set(report.pending)
        self._running.set(report.running)
        self._ranked.set(report.ranked)
        unknown = _of_unknown_reason(report.view.pending)
        self._unknown_reasons.inc(len(unknown - self._of_unknown_reason))
        self._of_unknown_reason = unknown
        self._starving.set(report.starving)
        self._use(report.view)
        self._waits(report.view.running)
        for error in self._accuracy.judge(report.ended):
            self._error_ratio.observe(error)
        self._coverage.set(self._accuracy.coverage)
        self._accuracy.observe(report.view)

    def _use(self, view: View) -> None:
        nodes, running = view.nodes, view.running
        has, used = gpus_of_nodes(nodes, view.gpu_parts)
        free = np.maximum(has - used, 0)
        self._gpus.labels("used").set(used.sum())
        self._gpus.labels("free").set(free[nodes.usable].sum())
        self._gpus.labels("unusable").set(free[~nodes.usable].sum())
        self._guests.set(int(np.count_nonzero(running.beside)))
        self._shared_gpus.set(running.guest_gpus.sum())

    def _waits(self, running: JobTable) -> None:
        """Observe the waits of jobs that run since the last cycle; those that ran before the first one do not count."""
        before, self._run = self._run, running.job_id
        if before is None:
            return
        waits_s = running.started_s - running.first_submit_s
        first = ~np.isin(running.job_id, before) & (running.restarts == 0) & np.isfinite(waits_s)
        for wait_s in np.maximum(waits_s[first], 0.0).tolist():
            self._wait_s.observe(wait_s)

    def _fallbacks(self, active: tuple[str, ...]) -> None:
        in_use = set()
        for part in active:
            if len(self._parts) < PARTS_MOST:
                self._parts.add(part)
            in_use.add(part if part in self._parts else "other")
        self._parts |= in_use
        for part in self._parts:
            self._fallback.labels(part).set(part in in_use)


def _of_unknown_reason(pending: JobTable) -> set[tuple[int, str]]:
    """Return the pending jobs whose reason is in no list of ours, each with its reason."""
    unknown = pending.reason.map([not reason_of(text).known for text in pending.reason.names], np.bool_)
    return {(int(pending.job_id[row]), pending.reason[row]) for row in np.flatnonzero(unknown).tolist()}
