"""Carry out a plan on Slurm: within the budget, only while this daemon leads, without retrying a fresh refusal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...cluster.actions import Action, Rank
from ..port import ActionResult, Fence, Slurm
from .budget import Budget
from .order_lag import Lag

BATCH = 100
"""The number of writes between two checks of the fence."""

NOT_SENT = "not sent: another daemon leads this cluster now"


def _always() -> bool:
    return True


@dataclass
class Writer:
    """The sender of actions to a cluster, the most important first."""

    cluster: Slurm
    budget: Budget
    fence: Fence = field(default=_always)
    lag: Lag = field(default_factory=Lag)

    def affordable(self, actions: Sequence[Action], shy_of: Collection[int], monotonic_s: float) -> tuple[Action, ...]:
        """Return the actions that may go out at *monotonic_s*; *shy_of* are jobs whose last write was just refused."""
        willing = [action for action in actions if action.job_id not in shy_of]
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
