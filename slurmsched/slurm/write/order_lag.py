"""How far the order that Slurm has lags behind the wanted one, and what bounds it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

PATIENCE = 8
"""After so many cycles in which a write was left for later, fewer jobs are ordered."""

CALM = 4
"""After so many cycles in which nothing was left, more jobs are ordered again."""

LEAST = 16
"""So many jobs are ordered at least."""


@dataclass
class Lag:
    """Which jobs wait for their points, and how many jobs from the top are ordered, so that none waits for long."""

    _since: dict[int, tuple[int, float]] = field(default_factory=dict)  #: cycles and since when, by job
    _halvings: int = 0
    _calm: int = 0

    def note(self, left: Collection[int], monotonic_s: float) -> None:
        """Take in which jobs a cycle *left* without the points they should have."""
        before = self._since
        self._since = {job: (before[job][0] + 1, before[job][1]) if job in before else (1, monotonic_s) for job in left}
        self._calm = 0 if self._since else self._calm + 1
        if max((cycles for cycles, _ in self._since.values()), default=0) > PATIENCE:
            self._halvings += 1
        elif self._calm >= CALM and self._halvings:
            self._halvings, self._calm = self._halvings - 1, 0

    def lag_s(self, monotonic_s: float) -> float:
        """For how long the job that waits longest has been without the points it should have."""
        return max(0.0, monotonic_s - min((since_s for _, since_s in self._since.values()), default=monotonic_s))

    def window(self, most: int) -> int:
        """How many of *most* jobs from the top are ordered now."""
        self._halvings = min(self._halvings, max(0, (most // LEAST).bit_length()))
        return max(min(most, LEAST), most >> self._halvings)
