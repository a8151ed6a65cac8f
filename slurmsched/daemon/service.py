"""The daemon as a whole: the loop and its observers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Protocol

from .. import __version__
from ..clock import Clock
from ..cluster.limits import why_unread
from ..config import DaemonSettings
from ..cycle import CycleReport
from ..errors import SlurmError, SlurmschedError
from . import signals
from .api.http_metrics import MetricsAccess, MetricsServer
from .api.query_handlers import QueryHandlers
from .api.query_server import QueryServer, QueryWorkers
from .api.questions.contract import Sources
from .api.remote_server import RemoteServer
from .compiled_code import CompiledCode
from .daemon_status import DaemonStatus, cycle_status
from .database_inspector import Inspector
from .health import BUG, Health
from .hourly_counts import HourlyCounts
from .lock import StateLock
from .loop import BeatResult, Loop
from .metrics import Metrics
from .notify import Notifier
from .predictions.prediction_service import PredictionService
from .profiles.profile_receiver import ProfileReceiver
from .solver_service import SolverService
from .synthesis_service import SynthesisService
from .usage_service import UsageService

logger = logging.getLogger(__name__)

_Listener = (
    MetricsServer
    | QueryServer
    | RemoteServer
    | ProfileReceiver
    | PredictionService
    | SolverService
    | SynthesisService
    | UsageService
    | HourlyCounts
    | Inspector
    | CompiledCode
)

LEAST_S = 20.0
"""The least time for giving jobs back, where a stop is requested during a long cycle."""

STANDBY = "another daemon leads this cluster"


class PauseSource(Protocol):
    """An admin's last ``pause`` or ``resume``."""

    @property
    def paused(self) -> bool:
        """True if we may only observe."""
        ...

    @property
    def by(self) -> str:
        """The admin who ran the command."""
        ...


class LeaderElection(Protocol):
    """The right to steer a cluster, which one daemon has at a time."""

    def acquire(self) -> bool:
        """Try to take it; return True if it is ours now."""
        ...

    def held(self) -> bool:
        """Report whether it is still ours, by reading it anew."""
        ...

    def release(self) -> None:
        """Give it up."""
        ...


class MemoryStatus(Protocol):
    """The part of the memory that the daemon itself reads."""

    @property
    def available(self) -> bool:
        """True if the database accepts writes."""
        ...

    @property
    def trouble(self) -> str:
        """The reason why it does not; empty while it does."""
        ...

    def control(self, now_s: float) -> PauseSource:
        """Return the admin's command in force at *now_s*; never raises for database trouble."""
        ...


@dataclass(frozen=True)
class AllowedMode:
    """The mode allowed to a cycle, and why it is less than the settings say (empty if it is not)."""

    mode: str
    why: str = ""
    paused: bool = False
    leader: bool = True
    hindered: str = ""  #: why it is less against the settings' wish, fit for all users


@dataclass
class ServiceParts:
    """The parts that ``cli`` builds and a Service runs."""

    cycle: Callable[[float, str], CycleReport]  #: (now_s, mode)
    clock: Clock
    settings: DaemonSettings
    memory: MemoryStatus
    leadership: LeaderElection
    metrics: Metrics
    sources: Callable[[Callable[[], DaemonStatus]], Sources]  #: builds the sources of answers, given status
    metrics_access: Callable[[], MetricsAccess | None] = lambda: None  #: reads [metrics]; None for no endpoint
    notifier: Notifier = field(default_factory=Notifier)
    flags: signals.Flags = field(default_factory=signals.Flags)
    reload: Callable[[], DaemonSettings] | None = None  #: raises SlurmschedError and changes nothing, or changes all
    release_all: Callable[[float], None] | None = None  #: on an ordered stop, given a budget in seconds
    release_budget_s: float = 60.0  #: from the request to stop; TimeoutStopSec of the unit is much longer
    collector: Callable[[], ProfileReceiver] | None = None  #: opens it; None where no node delivers
    remote: Callable[[QueryWorkers], RemoteServer] | None = None  #: opens it; None where no other host may ask
    predictions: PredictionService | None = None  #: None where predictions are off
    solver: SolverService | None = None  #: of lease problems
    usage: UsageService | None = None  #: reads what ended runs used
    counts: HourlyCounts | None = None  #: sums up hours
    synthesis: SynthesisService | None = None  #: plays compositions forward
    inspector: Inspector | None = None  #: None where the database is not inspected
    code: CompiledCode | None = None  #: compiles what answers run
    restraint: Callable[[], str] = str  #: why nothing may be written, despite the settings; empty if it may


class Service:
    """Runs the loop between an ordered start and an ordered stop; docs/operations.md describes degraded operation."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._allowed_mode = AllowedMode("observe", "not started")
        self._turn: BeatResult | None = None
        self._report: CycleReport | None = None
        self._renewed: list[RemoteServer | MetricsServer] = []
        self._health = Health(parts.clock)
        self.questions = QueryHandlers(parts.sources(self.status), trusted=(0, os.geteuid()))
        watchdog_s = parts.notifier.watchdog_s
        self._loop = Loop(
            self._cycle,
            parts.clock,
            parts.settings.every_s,
            flags=parts.flags,
            reload=self._reload if parts.reload else None,
            ended=self._ended,
            alive=parts.notifier.alive,
            alive_every_s=watchdog_s / 3 if watchdog_s else float("inf"),
        )

    def run(self) -> None:
        """Serve until stopped; ConfigError where a lock, a socket or an address is in use.

        SlurmError where some jobs could not be given back at the end: systemd then tries again.
        """
        parts, settings = self._parts, self._settings
        with ExitStack() as stack:
            stack.enter_context(StateLock(settings.state_dir))
            stack.callback(self._give_up_leadership)
            for listener in self._listeners():
                stack.callback(listener.close)
                listener.start()
            stack.enter_context(signals.listening(parts.flags))
            parts.notifier.ready(f"one cycle every {settings.every_s:g} s")
            self._start_patience()
            self._loop.run()
            parts.notifier.stopping("stopping")
            if not parts.flags.keep_jobs:
                self._release_all()
        logger.info("stopped")

    def _start_patience(self) -> None:
        """Feed the watchdog while code is compiled: the first cycle may need it, and then takes minutes."""
        code, alive, watchdog_s = self._parts.code, self._parts.notifier.alive, self._parts.notifier.watchdog_s
        if code is None or watchdog_s is None:
            return

        def feed() -> None:
            while not code.wait(watchdog_s / 3):
                alive()

        Thread(target=feed, name="patience", daemon=True).start()

    def once(self) -> BeatResult:
        """Run a single cycle under the same lock, with no socket opened."""
        with StateLock(self._settings.state_dir), ExitStack() as stack:
            stack.callback(self._give_up_leadership)
            return self._loop.once()

    def progressed(self) -> None:
        """Note that the cycle under way came one phase further; for cycles that may outlast the watchdog."""
        self._parts.notifier.alive()

    def allowed_mode(self, now_s: float) -> AllowedMode:
        """Return the mode allowed to a cycle that begins at *now_s*."""
        leader, away = self._lead()
        unknown = self._settings.mode == "act" and away != STANDBY
        control = self._parts.memory.control(now_s)
        paused = control.paused
        if self._loop.bug:
            return AllowedMode("observe", f"a bug, until a reload: {self._loop.bug}", paused, leader)
        if paused:
            return AllowedMode("observe", f"paused by {control.by}", paused, leader)
        if not leader:
            return AllowedMode("observe", away, paused, leader, "the leader cannot be determined" if unknown else "")
        if restraint := self._parts.restraint():
            return AllowedMode("observe", restraint, paused, leader, restraint if self._settings.mode == "act" else "")
        return AllowedMode(self._settings.mode, "", paused, leader)

    def status(self) -> DaemonStatus:
        """Return the daemon's state, ready for JSON; called from other threads."""
        allowed, turn, report = self._allowed_mode, self._turn, self._report
        body: DaemonStatus = {
            "version": __version__,
            "pid": os.getpid(),
            "mode": "observe" if self._loop.bug else allowed.mode,
            "configured_mode": self._settings.mode,
            "why_mode": allowed.why,
            "paused": allowed.paused,
            "leader": allowed.leader,
            "database_available": self._parts.memory.available,
            "database_trouble": self._parts.memory.trouble,
            "every_s": self._loop.every_s,
            "problem": self.problem(),
            "degraded": self._degraded(),
            "bug": self._loop.bug,
            "last_error": turn.error if turn else "",
            "last_turn_s": turn.now_s if turn else None,
        }
        if report is not None:
            body["cycle"] = cycle_status(report)
        return body

    def _degraded(self) -> str:
        """Describe failures beside the cycles, which go on; empty where there are none."""
        made, played, report = self._parts.predictions, self._parts.synthesis, self._report
        trouble = made.latest().trouble if made else ""
        sentences = [f"no new predictions: {trouble}"] if trouble else []
        used = self._parts.usage
        if used and used.trouble:
            sentences.append(f"the use of CPUs and memory is not known anew: {used.trouble}")
        if played and played.trouble:
            sentences.append(f"the composition stays as it is: {played.trouble}")
        if report and (why := why_unread(report.view.limits)):
            sentences.append(f"no job is steered or gets another size, for its limits are not known: {why}")
        troubles = [report.plugin_trouble, report.shadow_trouble] if report else []
        return "; ".join([*filter(None, troubles), *sentences])

    def problem(self) -> str:
        """Describe in one sentence why the daemon does not do its work; empty if it does, or is not meant to."""
        if self._loop.bug:
            return f"{BUG}; it only observes until a reload"
        hindered = self._allowed_mode.hindered
        return self._health.problem() or (hindered and f"it only observes: {hindered}")

    def _listeners(self) -> list[_Listener]:
        queries = QueryServer(Path(self._settings.run_dir), self.questions)
        listeners: list[_Listener] = [queries]
        try:
            if self._parts.remote:
                self._renewed.append(self._parts.remote(queries.workers))
                listeners.append(self._renewed[-1])
            if self._parts.metrics_access():
                read, metrics = self._parts.metrics_access, self._parts.metrics
                self._renewed.append(
                    MetricsServer(read, metrics.registry, self.problem, self._degraded, metrics.scrape)
                )
                listeners.append(self._renewed[-1])
            if self._parts.collector:
                listeners.append(self._parts.collector())
            if self._parts.predictions:
                listeners.append(self._parts.predictions)
            if self._parts.solver:
                listeners.append(self._parts.solver)
            if self._parts.usage:
                listeners.append(self._parts.usage)
            if self._parts.counts:
                listeners.append(self._parts.counts)
            if self._parts.synthesis:
                listeners.append(self._parts.synthesis)
            if self._parts.inspector:
                listeners.append(self._parts.inspector)
            if self._parts.code:
                listeners.append(self._parts.code)
        except SlurmschedError:
            for listener in listeners:
                listener.close()
            raise
        return listeners

    def _cycle(self, now_s: float) -> CycleReport:
        self._allowed_mode = self.allowed_mode(now_s)
        return self._parts.cycle(now_s, self._allowed_mode.mode)

    def _ended(self, turn: BeatResult) -> None:
        self._turn = turn
        self._health.ended(turn.error, self._loop.every_s, turn.bug)
        self._health.remembered(self._parts.memory.trouble)
        if turn.report is not None:
            self._report = turn.report
            self.questions.observe(turn.report)
            if self._parts.predictions:
                self._parts.predictions.observe(turn.report)
            if self._parts.solver:
                self._parts.solver.observe(turn.report)
            if self._parts.usage:
                self._parts.usage.observe(turn.report)
            if self._parts.synthesis:
                self._parts.synthesis.observe(turn.report)
            if self._parts.counts and self._allowed_mode.leader:  # of two daemons one counts
                self._parts.counts.observe(turn.report)
        allowed, bug = self._allowed_mode, self._loop.bug
        self._parts.notifier.status(self._line(turn))
        self._parts.metrics.turn(turn)
        self._parts.metrics.state(
            mode="observe" if bug else allowed.mode,
            paused=allowed.paused,
            leader=allowed.leader,
            database=self._parts.memory.available,
            bug=bool(bug),
        )

    def _line(self, turn: BeatResult) -> str:
        if self._loop.bug:
            return f"BUG, observing only until a reload: {self._loop.bug}"
        if turn.report is None:
            return f"the last cycle was lost: {turn.error}"
        why = f" ({self._allowed_mode.why})" if self._allowed_mode.why else ""
        return f"cycle {turn.report.number}: {turn.report.sentence}; {turn.took_s:.2f} s{why}"

    def _reload(self) -> float:
        assert self._parts.reload is not None
        self._parts.notifier.reloading(time.clock_gettime(time.CLOCK_MONOTONIC))
        try:
            self._settings = self._parts.reload()
            for server in self._renewed:
                server.renew()
            return self._settings.every_s
        finally:
            self._parts.notifier.ready(f"settings read; one cycle every {self._settings.every_s:g} s")

    def _lead(self) -> tuple[bool, str]:
        leadership = self._parts.leadership
        try:
            if leadership.held() or leadership.acquire():
                return True, ""
            return False, STANDBY
        except SlurmschedError as error:
            return False, f"the leader cannot be determined: {error}"

    def _give_up_leadership(self) -> None:
        try:
            self._parts.leadership.release()
        except SlurmschedError as error:
            logger.warning("the leadership was not released; it ends with this process: %s", error)

    def _release_all(self) -> None:
        if self._parts.release_all is None:
            return
        budget_s = self._parts.release_budget_s
        left_s = max(min(LEAST_S, budget_s), budget_s - self._parts.flags.since_stop_s)
        try:
            self._parts.release_all(left_s)
        except SlurmschedError as error:
            raise SlurmError(
                f"not every job was given back to Slurm: {error}; slurmsched release-all does the rest"
            ) from error
