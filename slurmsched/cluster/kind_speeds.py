"""What the daemon learns of kinds of jobs: their speed by type, number and spread of GPUs, and what restarts cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from .records.outcomes import OutcomeTable
from .size_speeds import RestartCosts, SizeSpeeds
from .spread_speeds import SpreadSpeeds
from .state import ClusterState
from .type_speeds import TypeSpeeds


@dataclass(frozen=True)
class KindSpeeds:
    """The speeds of kinds of jobs, learnt from runs as they end and from running jobs that show their pace."""

    types: TypeSpeeds = field(default_factory=TypeSpeeds)
    sizes: SizeSpeeds = field(default_factory=SizeSpeeds)
    spread: SpreadSpeeds = field(default_factory=SpreadSpeeds)
    restarts: RestartCosts = field(default_factory=RestartCosts)

    def learn(self, runs: OutcomeTable) -> None:
        """Learn from ended *runs*."""
        self.types.learn(runs)
        self.sizes.learn(runs)

    def observe(self, state: ClusterState) -> None:
        """Learn from the running jobs of *state*."""
        self.types.observe(state)
        self.sizes.observe(state)
        self.spread.observe(state)

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with what is known of the kinds of its jobs."""
        for part in (self.types, self.sizes, self.spread, self.restarts):
            state = part.filled(state)
        return state
