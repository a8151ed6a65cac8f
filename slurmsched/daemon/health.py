"""The daemon's health, from the age of its last successful cycle and of its last write to the database."""

from __future__ import annotations

from dataclasses import dataclass

from ..clock import Clock

BEATS = 3
BUG = "a bug in slurmsched; the log has details"


@dataclass(frozen=True)
class _Mark:
    at_s: float  # monotonic
    every_s: float


class Health:
    """Healthy while the last successful cycle, and the last recorded one, ended at most three intervals ago.

    Written by the cycle's thread, read by the endpoint's: each field is replaced whole.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._success: _Mark | None = None
        self._remembered: _Mark | None = None
        self._forgetting = ""
        self._trouble = "no cycle has ended yet"

    def ended(self, error: str, every_s: float, bug: bool = False) -> None:
        """Note the end of a cycle; *error* is empty if it succeeded.

        The text of a *bug* may contain anything, and goes only to the log.
        """
        self._trouble = (BUG if bug else error) or "no cycle has ended since"
        if not error:
            self._success = _Mark(self._clock.monotonic(), every_s)

    def remembered(self, trouble: str) -> None:
        """Note whether the cycle that ended now was recorded; *trouble* is the reason if not, else empty."""
        self._forgetting = trouble
        if self._success and (not trouble or self._remembered is None):
            self._remembered = _Mark(self._clock.monotonic(), self._success.every_s)

    def problem(self) -> str:
        """Describe in one sentence why the daemon is not healthy; empty if it is."""
        success = self._success
        if success is None:
            return f"no cycle has succeeded yet: {self._trouble}"
        age_s = self._clock.monotonic() - success.at_s
        if age_s <= BEATS * success.every_s:
            return self._without_database()
        return f"the last good cycle ended {age_s:.0f} s ago, more than {BEATS} beats: {self._trouble}"

    def _without_database(self) -> str:
        mark, trouble = self._remembered, self._forgetting
        age_s = self._clock.monotonic() - mark.at_s if mark else 0.0
        if not trouble or mark is None or age_s <= BEATS * mark.every_s:
            return ""
        return f"nothing has been stored for {age_s:.0f} s, more than {BEATS} beats: {trouble}"
