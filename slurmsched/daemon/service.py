"""The daemon as a whole: the loop and its observers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .. import __version__
from ..clock import Clock
from ..cluster.limits import why_unread
from ..config import DaemonSettings
from ..cycle import CycleReport
from ..db.leader import Leadership
from ..db.memory import Memory
from ..errors import SlurmError, SlurmschedError
from . import signals
from .api.http_metrics import MetricsAccess, MetricsServer
from .api.named_users import NamedUsers
from .api.query_handlers import QueryHandlers
from .api.query_server import QueryServer
from .api.questions.contract import Sources
from .daemon_status import DaemonStatus, cycle_status
from .follower import Follower
from .health import BUG, Health
from .lock import StateLock
from .loop import BeatResult, Loop
from .metrics import Metrics
from .notify import Notifier

logger = logging.getLogger(__name__)

LEAST_S = 20.0
"""The least time for giving jobs back, where a stop is requested during a long cycle."""

STANDBY = "another daemon leads this cluster"


@dataclass(frozen=True)
class AllowedMode:
    """The mode allowed to a cycle, and why it is less than the settings say (empty if it is not)."""

    mode: str
    why: str = ""
    paused: bool = False
    leader: bool = True
    hindered: str = ""  #: why it is less against the settings' wish, fit for all users


Door = Callable[["Service"], Follower | None]
"""Opens an address on which the service is reached; None where it is off. ConfigError where it is in use."""


@dataclass
class ServiceParts:
    """The parts that ``cli`` builds and a Service runs."""

    cycle: Callable[[float, str], CycleReport]  #: (now_s, mode)
    clock: Clock
    settings: DaemonSettings
    memory: Memory
    leadership: Leadership
    metrics: Metrics
    sources: Callable[[Callable[[], DaemonStatus]], Sources]  #: builds the sources of answers, given status
    notifier: Notifier = field(default_factory=Notifier)
    flags: signals.Flags = field(default_factory=signals.Flags)
    reload: Callable[[], DaemonSettings] | None = None  #: raises SlurmschedError and changes nothing, or changes all
    release_all: Callable[[float], None] | None = None  #: on an ordered stop, given a budget in seconds
    release_budget_s: float = 60.0  #: from the request to stop; TimeoutStopSec of the unit is much longer
    doors: Sequence[Door] = ()  #: each opens an address when the daemon begins to serve
    followers: Sequence[Follower] = ()  #: what goes on beside the cycles
    named: Callable[[], NamedUsers | None] = lambda: None  #: who may name other users on the socket
    restraint: Callable[[], str] = str  #: why nothing may be written, despite the settings; empty if it may


class Service:
    """Runs the loop between an ordered start and an ordered stop; docs/operations.md describes degraded operation."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._allowed_mode = AllowedMode("observe", "not started")
        self._beat: BeatResult | None = None
        self._report: CycleReport | None = None
        self._doors: list[Follower] = []
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
            for door in self._open():
                self._doors.append(door)
                stack.callback(door.close)
            for follower in parts.followers:
                stack.callback(follower.close)
            for part in (*self._doors, *parts.followers):
                part.start()
            stack.enter_context(signals.listening(parts.flags))
            parts.notifier.ready(f"one cycle every {settings.every_s:g} s")
            for follower in parts.followers:
                follower.before_first_cycle()
            self._loop.run()
            parts.notifier.stopping("stopping")
            if not parts.flags.keep_jobs:
                self._release_all()
        logger.info("stopped")

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
        allowed, beat, report = self._allowed_mode, self._beat, self._report
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
            "degraded": self.degraded(),
            "bug": self._loop.bug,
            "last_error": beat.error if beat else "",
            "last_turn_s": beat.now_s if beat else None,
        }
        if report is not None:
            body["cycle"] = cycle_status(report)
        return body

    def degraded(self) -> str:
        """Describe failures beside the cycles, which go on; empty where there are none."""
        report, sentences = self._report, [follower.degraded for follower in self._parts.followers]
        if report and (why := why_unread(report.view.limits)):
            sentences.append(f"no job is steered or gets another size, for its limits are not known: {why}")
        troubles = [report.plugin_trouble, report.shadow_trouble] if report else []
        return "; ".join(filter(None, [*troubles, *sentences]))

    def problem(self) -> str:
        """Describe in one sentence why the daemon does not do its work; empty if it does, or is not meant to."""
        if self._loop.bug:
            return f"{BUG}; it only observes until a reload"
        hindered = self._allowed_mode.hindered
        return self._health.problem() or (hindered and f"it only observes: {hindered}")

    def _open(self) -> Iterator[Follower]:
        """Open the socket of questions, then the other doors; ``workers`` answer what comes through them."""
        queries = QueryServer(Path(self._settings.run_dir), self.questions, named=self._parts.named)
        self.workers = queries.workers
        yield queries
        for opened in self._parts.doors:
            if (door := opened(self)) is not None:
                yield door

    def _cycle(self, now_s: float) -> CycleReport:
        self._allowed_mode = self.allowed_mode(now_s)
        return self._parts.cycle(now_s, self._allowed_mode.mode)

    def _ended(self, beat: BeatResult) -> None:
        self._beat = beat
        self._health.ended(beat.error, self._loop.every_s, beat.bug)
        self._health.remembered(self._parts.memory.trouble)
        if beat.report is not None:
            self._report = beat.report
            self.questions.observe(beat.report)
            for follower in self._parts.followers:
                if self._allowed_mode.leader or not follower.leader_only:
                    follower.observe(beat.report)
        allowed, bug = self._allowed_mode, self._loop.bug
        self._parts.notifier.status(self._line(beat))
        self._parts.metrics.turn(beat)
        self._parts.metrics.state(
            mode="observe" if bug else allowed.mode,
            paused=allowed.paused,
            leader=allowed.leader,
            database=self._parts.memory.available,
            bug=bool(bug),
        )

    def _line(self, beat: BeatResult) -> str:
        if self._loop.bug:
            return f"BUG, observing only until a reload: {self._loop.bug}"
        if beat.report is None:
            return f"the last cycle was lost: {beat.error}"
        why = f" ({self._allowed_mode.why})" if self._allowed_mode.why else ""
        return f"cycle {beat.report.number}: {beat.report.sentence}; {beat.took_s:.2f} s{why}"

    def _reload(self) -> float:
        assert self._parts.reload is not None
        self._parts.notifier.reloading(time.clock_gettime(time.CLOCK_MONOTONIC))
        try:
            self._settings = self._parts.reload()
            for part in (*self._doors, *self._parts.followers):
                part.renew()
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


def metrics_door(access: Callable[[], MetricsAccess | None], metrics: Metrics) -> Door:
    """Return the door to *metrics* and health, for those who have *access*."""

    def opened(service: Service) -> Follower | None:
        if access() is None:
            return None
        return MetricsServer(access, metrics.registry, service.problem, service.degraded, metrics.scrape)

    return opened
