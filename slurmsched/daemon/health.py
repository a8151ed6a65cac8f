"""Whether the daemon does its work, by the age of its last good cycle."""

from __future__ import annotations

from dataclasses import dataclass

from ..clock import Clock

BEATS = 3
BUG = "a bug in slurmsched, the log has more"


@dataclass(frozen=True)
class _Mark:
    at_s: float  # monotonic
    every_s: float


class Health:
    """Healthy while the last cycle that succeeded ended at most three beats ago.

    Written by the cycle's thread, read by the endpoint's: each field is replaced whole.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._success: _Mark | None = None
        self._trouble = "no cycle has ended yet"

    def ended(self, error: str, every_s: float, bug: bool = False) -> None:
        """A cycle ended now; *error* is empty if it did its work.

        What a *bug* says may hold anything, and is for the log alone.
        """
        self._trouble = (BUG if bug else error) or "no cycle has ended since"
        if not error:
            self._success = _Mark(self._clock.monotonic(), every_s)

    def problem(self) -> str:
        """Why the daemon is not healthy, in one sentence; empty if it is."""
        success = self._success
        if success is None:
            return f"no cycle has succeeded yet: {self._trouble}"
        age_s = self._clock.monotonic() - success.at_s
        if age_s <= BEATS * success.every_s:
            return ""
        return f"the last good cycle ended {age_s:.0f} s ago, more than {BEATS} beats: {self._trouble}"
