"""Clocks: time is passed in, never read from the system by the code that uses it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cache
from typing import Protocol
from zoneinfo import ZoneInfo


class Clock(Protocol):
    """A source of time. Only the daemon, the CLI and the simulator hold one; all code below them takes ``now_s``."""

    def now(self) -> float:
        """Return Unix time in seconds (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease; only differences have a meaning."""
        ...

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Sleep up to *seconds*, less if *wake* is set; return whether it was set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return Unix time in seconds (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since an arbitrary fixed moment."""
        return time.monotonic()

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Sleep up to *seconds*, less if *wake* is set."""
        return wake.wait(max(0.0, seconds))


@dataclass
class ManualClock:
    """A clock that advances only when set or waited on. For tests and the simulator."""

    now_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)

    def now(self) -> float:
        """Return the time that was last set."""
        return self.now_s

    def monotonic(self) -> float:
        """Return ``now``, since this clock never runs backwards."""
        return self.now_s

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Advance by *seconds* without sleeping."""
        self.waits_s.append(seconds)
        self.now_s += max(0.0, seconds)
        return wake.is_set()


class Timer:
    """A delay between two attempts: due at once, then again when the last ``put_off`` has elapsed.

    It uses a monotonic clock: setting the wall clock neither lengthens nor shortens the delay.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._due_s = -math.inf

    @property
    def due(self) -> bool:
        """True if the delay has elapsed."""
        return self._monotonic() >= self._due_s

    def put_off(self, seconds: float) -> None:
        """Make the timer due *seconds* from now."""
        self._due_s = self._monotonic() + seconds

    def expire(self) -> None:
        """Make the timer due at once."""
        self._due_s = -math.inf


@cache
def local_zone() -> tzinfo:
    """Return this machine's time zone with its rules, not datetime's fixed offset; UTC if none is configured."""
    try:
        with open("/etc/localtime", "rb") as rules:
            return ZoneInfo.from_file(rules)
    except (OSError, ValueError):
        return UTC
