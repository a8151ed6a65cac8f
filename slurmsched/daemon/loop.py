"""The loop: one cycle every so many seconds, whatever happens in it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from ..clock import Clock
from ..cycle import CycleReport
from ..errors import SlurmschedError
from .signals import Flags

logger = logging.getLogger(__name__)

BACKOFF_MOST_BEATS = 8
BACKOFF_MOST_S = 300.0


@dataclass(frozen=True)
class BeatResult:
    """The result of one beat: a report, or the reason why there is none."""

    now_s: float  #: when it began, Unix seconds
    took_s: float
    report: CycleReport | None = None
    error: str = ""  #: why it failed; empty if it did not
    bug: bool = False  #: it failed through a bug of ours

    @property
    def ok(self) -> bool:
        """True if the cycle completed."""
        return not self.error


def _nothing(turn: BeatResult) -> None:
    """Ignore a beat: the default observer."""


class Loop:
    """Runs cycles on a fixed beat until told to stop.

    Beats lie on a grid of ``every_s`` on the monotonic clock. A cycle that outlasts its beat makes the loop skip the
    beats it missed, so that a slow slurmctld gets time between two cycles. Failed cycles in a row space out, doubling
    up to 8 beats or 300 s. A bug in the cycle leaves ``bug`` set until a reload is accepted.
    """

    def __init__(
        self,
        cycle: Callable[[float], CycleReport],
        clock: Clock,
        every_s: float,
        *,
        flags: Flags | None = None,
        reload: Callable[[], float] | None = None,
        ended: Callable[[BeatResult], None] = _nothing,
        alive: Callable[[], None] = lambda: None,
        alive_every_s: float = math.inf,
    ) -> None:
        self.every_s = every_s
        self.flags = flags or Flags()
        self.bug = ""  #: our own bug, described; empty while there is none
        self._cycle = cycle
        self._clock = clock
        self._reload = reload
        self._ended = ended
        self._alive = alive
        self._alive_every_s = alive_every_s
        self._failures = 0

    def run(self) -> None:
        """Run cycles until the stop flag is set; the cycle under way is always finished."""
        due_s = self._clock.monotonic()
        while not self.flags.stop:
            if self.flags.take_reload():
                self._take_settings()
                due_s = self._clock.monotonic()
            turn = self.once()
            due_s = self._next_due(due_s, turn)
            self._rest(due_s)

    def once(self) -> BeatResult:
        """Run one cycle. Neither an unreachable cluster nor a bug of ours costs more than this cycle."""
        now_s, began_s = self._clock.now(), self._clock.monotonic()
        report, error, bug = None, "", False
        try:
            report = self._cycle(now_s)
            logger.info("cycle %d: %s", report.number, report.sentence)
        except SlurmschedError as trouble:
            error = str(trouble)
            logger.warning("a cycle was lost: %s", error)
        except MemoryError:  # not a bug, and the next cycle may need less
            error = "there was not enough memory for a cycle"
            logger.warning("a cycle was lost: %s", error)
        except Exception as fault:  # the daemon must survive its own bugs: it logs them and stops acting
            error, bug = self._record_bug("the cycle", fault), True
        self._failures = self._failures + 1 if error else 0
        turn = BeatResult(now_s, self._clock.monotonic() - began_s, report, error, bug)
        try:
            self._ended(turn)
        except Exception as fault:  # as above
            self._record_bug("the report of a cycle", fault)
        return turn

    def _record_bug(self, where: str, fault: Exception) -> str:
        self.bug = f"{type(fault).__name__}: {fault}"
        logger.error("a bug in %s, please report it; observing only until a reload", where, exc_info=fault)
        return self.bug

    def _take_settings(self) -> None:
        """Reload; an invalid file changes nothing."""
        if self._reload is None:
            return
        try:
            self.every_s = self._reload()
        except SlurmschedError as error:
            logger.error("reload refused, the old settings stay: %s", error)
            return
        except Exception as fault:  # as in once: a bug must not end the daemon
            self._record_bug("the reload", fault)
            return
        self.bug, self._failures = "", 0
        logger.info("settings reloaded; one cycle every %g s", self.every_s)

    def _next_due(self, due_s: float, turn: BeatResult) -> float:
        due_s += self._spacing_s()
        late_s = self._clock.monotonic() - due_s
        if late_s <= 0:
            return due_s
        missed = math.ceil(late_s / self.every_s)
        logger.warning("a cycle took %.1f s, the beat is %g s; beats skipped: %d", turn.took_s, self.every_s, missed)
        return due_s + missed * self.every_s

    def _spacing_s(self) -> float:
        if self._failures < 2:
            return self.every_s
        beats = min(2.0 ** (self._failures - 1), BACKOFF_MOST_BEATS)
        spacing_s = max(self.every_s, min(beats * self.every_s, BACKOFF_MOST_S))
        logger.warning("%d cycles failed in a row; the next one in %g s", self._failures, spacing_s)
        return spacing_s

    def _rest(self, due_s: float) -> None:
        """Sleep until *due_s* or until a request arrives, and feed the watchdog meanwhile."""
        self._alive()
        while (left_s := due_s - self._clock.monotonic()) > 0 and not (self.flags.stop or self.flags.reload):
            if self._clock.wait(min(left_s, self._alive_every_s), self.flags.wake):
                # Cleared before the flags are looked at, and set after they are: no request is slept through.
                self.flags.wake.clear()
            self._alive()
