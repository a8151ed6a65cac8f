"""Where time comes from: handed in, never taken."""

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
    """A source of time; only shells (daemon, CLI, simulator) hold one, everything below takes ``now_s``."""

    def now(self) -> float:
        """Unix time in seconds (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Sleep up to *seconds*, less if *wake* is set; true if it was set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Unix time in seconds (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Sleep up to *seconds*, less if *wake* is set."""
        return wake.wait(max(0.0, seconds))


@dataclass
class ManualClock:
    """A clock that moves only when told to; waiting moves it. For tests and the simulator."""

    now_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)

    def now(self) -> float:
        """The time it was last moved to."""
        return self.now_s

    def monotonic(self) -> float:
        """The same as ``now``: this clock never runs backwards."""
        return self.now_s

    def wait(self, seconds: float, wake: threading.Event) -> bool:
        """Jump *seconds* ahead without sleeping."""
        self.waits_s.append(seconds)
        self.now_s += max(0.0, seconds)
        return wake.is_set()


class Timer:
    """A wait between two tries: due at once, then again when the time it was put off by is over.

    It runs on a monotonic clock: setting the wall clock neither prolongs the wait nor cuts it short.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._due_s = -math.inf

    @property
    def due(self) -> bool:
        """Whether nothing is left of the wait."""
        return self._monotonic() >= self._due_s

    def put_off(self, seconds: float) -> None:
        """Be due *seconds* from now."""
        self._due_s = self._monotonic() + seconds

    def expire(self) -> None:
        """Be due at once."""
        self._due_s = -math.inf


@cache
def local_zone() -> tzinfo:
    """This machine's time zone with its rules, unlike the fixed offset that datetime gives; UTC where it has none."""
    try:
        with open("/etc/localtime", "rb") as rules:
            return ZoneInfo.from_file(rules)
    except (OSError, ValueError):
        return UTC
