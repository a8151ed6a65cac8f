"""The lag of the order in Slurm behind the wanted one, and its bound."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

PATIENCE = 8
"""The number of cycles a job's points may stay unsent before fewer jobs are ordered."""

CALM = 4
"""The number of cycles without unsent points after which more jobs are ordered again."""

LEAST = 16
"""The smallest number of jobs that are ordered."""


@dataclass
class Lag:
    """The jobs that wait for their points, and the number of top jobs to order, which bounds their wait."""

    _since: dict[int, tuple[int, float]] = field(default_factory=dict)  #: cycles and start of the wait, by job
    _halvings: int = 0
    _calm: int = 0

    def note(self, left: Collection[int], monotonic_s: float) -> None:
        """Record the jobs that a cycle *left* without the points they should have."""
        before = self._since
        self._since = {job: (before[job][0] + 1, before[job][1]) if job in before else (1, monotonic_s) for job in left}
        self._calm = 0 if self._since else self._calm + 1
        if max((cycles for cycles, _ in self._since.values()), default=0) > PATIENCE:
            self._halvings += 1
        elif self._calm >= CALM and self._halvings:
            self._halvings, self._calm = self._halvings - 1, 0

    def lag_s(self, monotonic_s: float) -> float:
        """Return the longest time, in seconds, that a job has been without the points it should have."""
        return max(0.0, monotonic_s - min((since_s for _, since_s in self._since.values()), default=monotonic_s))

    def window(self, most: int) -> int:
        """Return the number of top jobs to order now, at most *most*."""
        self._halvings = min(self._halvings, max(0, (most // LEAST).bit_length()))
        return max(min(most, LEAST), most >> self._halvings)
