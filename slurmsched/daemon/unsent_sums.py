"""Sums by the hour that wait in memory for the database."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from threading import Lock

from ..cluster.records.hours import HOUR_S
from ..db.records.hours import Counted
from ..errors import SlurmschedError


class UnsentSums:
    """Sums of the hours that are not in the database yet; cycles and threads add to them.

    *send* adds sums to those of their hours. What it cannot take stays, *most* sums at most beside new ones.
    """

    def __init__(self, send: Callable[[Mapping[Counted, float]], None], most: float = math.inf) -> None:
        self._send, self._most = send, most
        self._sums: dict[Counted, float] = defaultdict(float)
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, at_s: float, what: str, account: str, user: str, value: float) -> None:
        """Add *value* to the sum of the hour of *at_s* (Unix seconds)."""
        hour_s = math.floor(at_s / HOUR_S) * HOUR_S
        with self._lock:
            self._sums[Counted(hour_s, what, account, user)] += value

    def send(self) -> None:
        """Send all sums; where that fails they wait on, and the SlurmschedError is the caller's."""
        with self._lock:
            news, self._sums = self._sums, defaultdict(float)
        try:
            self._send(news)
        except SlurmschedError:
            with self._lock:
                for counted, value in news.items():
                    if counted in self._sums or len(self._sums) < self._most:
                        self._sums[counted] += value
            raise
