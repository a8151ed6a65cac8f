"""Limit the rate of updates to slurmctld by a token bucket that slows down when the controller does."""

from __future__ import annotations

from dataclasses import dataclass

from ..port import ControllerLoad

BUSY_LEAST = 0.1
"""RPC time in a second below which slurmctld is idle, however long one RPC takes: a longer queue is longer to read."""


@dataclass
class Budget:
    """The updates that may be sent: *per_s* sustained, *burst* at once, fewer while slurmctld is slow and busy."""

    per_s: float
    burst: int
    pace: float = 1.0  #: 1 at normal load, halved at each reading with twice the usual mean RPC time
    _tokens: float = -1.0
    _filled_s: float = 0.0
    _usual_s: float = 0.0
    _last: ControllerLoad | None = None
    _read_s: float = 0.0

    def take(self, wanted: int, monotonic_s: float) -> int:
        """Take tokens for *wanted* updates at *monotonic_s*, a monotonic clock; return the number that may go out."""
        if self._tokens < 0:
            self._tokens = float(self.burst)
        else:
            elapsed_s = monotonic_s - self._filled_s
            self._tokens = min(float(self.burst), self._tokens + elapsed_s * self.per_s * self.pace)
        self._filled_s = monotonic_s
        granted = min(wanted, int(self._tokens * self.pace) if self.pace < 1 else int(self._tokens))
        self._tokens -= granted
        return granted

    def apply_load(self, load: ControllerLoad, monotonic_s: float) -> None:
        """Compare the mean time of the RPCs since the last reading with the usual one, and set the pace.

        While they take less than BUSY_LEAST of the time since then, slurmctld is not slow.
        """
        last, self._last = self._last, load
        elapsed_s, self._read_s = monotonic_s - self._read_s, monotonic_s
        if last is None or load.rpc_count < last.rpc_count:  # first reading, or the counters were reset
            self._usual_s = self._usual_s or load.rpc_mean_s
            return
        calls = load.rpc_count - last.rpc_count
        if not calls:
            return
        took_s = load.rpc_total_s - last.rpc_total_s
        mean_s = took_s / calls
        if self._usual_s <= 0:
            self._usual_s = mean_s
        slower = mean_s / self._usual_s if self._usual_s > 0 else 1.0
        if slower >= 2 and took_s >= BUSY_LEAST * elapsed_s:
            self.pace = max(1 / 16, self.pace / 2)
            weight = 0.005  # after a lasting growth of the cluster the pace must recover
        else:
            self.pace = min(1.0, self.pace * 2)
            weight = 0.05
        self._usual_s += weight * (mean_s - self._usual_s)
