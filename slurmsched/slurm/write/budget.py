"""How many updates slurmctld is asked to take: a token bucket that slows down when the controller does."""

from __future__ import annotations

from dataclasses import dataclass

from ..port import ControllerLoad


@dataclass
class Budget:
    """Updates we may send: *per_s* sustained, *burst* at once, fewer while slurmctld is slow."""

    per_s: float
    burst: int
    pace: float = 1.0  #: 1 at normal load, halved each time the mean RPC time doubles against the usual
    _tokens: float = -1.0
    _filled_s: float = 0.0
    _usual_s: float = 0.0
    _last: ControllerLoad | None = None

    def take(self, wanted: int, monotonic_s: float) -> int:
        """How many of *wanted* updates may go out at *monotonic_s*, a time that is never set."""
        if self._tokens < 0:
            self._tokens = float(self.burst)
        else:
            elapsed_s = monotonic_s - self._filled_s
            self._tokens = min(float(self.burst), self._tokens + elapsed_s * self.per_s * self.pace)
        self._filled_s = monotonic_s
        granted = min(wanted, int(self._tokens * self.pace) if self.pace < 1 else int(self._tokens))
        self._tokens -= granted
        return granted

    def apply_load(self, load: ControllerLoad) -> None:
        """Compare the RPCs since the last reading with what is usual, and set the pace."""
        last, self._last = self._last, load
        if last is None or load.rpc_count < last.rpc_count:  # first reading, or the counters were reset
            self._usual_s = self._usual_s or load.rpc_mean_s
            return
        calls = load.rpc_count - last.rpc_count
        if not calls:
            return
        mean_s = (load.rpc_total_s - last.rpc_total_s) / calls
        if self._usual_s <= 0:
            self._usual_s = mean_s
        slower = mean_s / self._usual_s if self._usual_s > 0 else 1.0
        if slower >= 2:
            self.pace = max(1 / 16, self.pace / 2)
            weight = 0.005  # a cluster that has grown for good must not crawl for ever
        else:
            self.pace = min(1.0, self.pace * 2)
            weight = 0.05
        self._usual_s += weight * (mean_s - self._usual_s)
