"""Carry out a plan on Slurm: within the budget, only while this daemon leads, without retrying a fresh refusal.

The part that does not fit the budget makes the order of Slurm lag behind the wanted one; ``Lag`` bounds that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...cluster.actions import Action, Rank, job_of
from ..port import ActionResult, Fence, Slurm
from .budget import Budget

BATCH = 100
"""The number of writes between two checks of the fence."""

NOT_SENT = "not sent: another daemon leads this cluster now"

PATIENCE = 8
"""The number of cycles a job's points may stay unsent before fewer jobs are ordered."""

CALM = 4
"""The number of cycles without unsent points after which more jobs are ordered again."""

LEAST = 16
"""The smallest number of jobs that are ordered."""


def _always() -> bool:
    return True


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


@dataclass
class Writer:
    """The sender of actions to a cluster, the most important first."""

    cluster: Slurm
    budget: Budget
    fence: Fence = field(default=_always)
    lag: Lag = field(default_factory=Lag)

    def affordable(self, actions: Sequence[Action], shy_of: Collection[int], monotonic_s: float) -> tuple[Action, ...]:
        """Return the actions that may go out at *monotonic_s*.

        *shy_of* are jobs whose last write was just refused; NO_JOB among them stands for moves of nodes.
        """
        willing = [action for action in actions if job_of(action) not in shy_of]
        count = self.budget.take(len(willing), monotonic_s)
        self.lag.note([action.job_id for action in willing[count:] if isinstance(action, Rank)], monotonic_s)
        return tuple(willing[:count])

    def send(self, actions: Sequence[Action]) -> tuple[ActionResult, ...]:
        """Send *actions* in batches; once another daemon leads, the rest is not sent, and the results state it."""
        answers: list[ActionResult] = []
        for first in range(0, len(actions), BATCH):
            if not self.fence():
                return (*answers, *(ActionResult(action, NOT_SENT) for action in actions[first:]))
            answers += self.cluster.act(actions[first : first + BATCH])
        return tuple(answers)
