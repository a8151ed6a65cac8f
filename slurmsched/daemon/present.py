"""What is in force at present, for the parts of a daemon that are made before it: filled once, then read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..config import Settings
from ..db.memory import Memory
from ..decide.policy import Policy
from ..models.port import Model
from .cluster_facts import ClusterFacts

if TYPE_CHECKING:
    from ..cycle import CycleContext
    from .controller import DaemonController
    from .service import Service


class Present:
    """The parts that others ask again and again: context of the cycle, facts, memory, controller and service."""

    context: CycleContext
    facts: ClusterFacts
    memory: Memory
    controller: DaemonController
    service: Service

    def policy(self) -> Policy:
        """Return the policy in force."""
        return self.context.policy

    def model(self) -> Model:
        """Return the model of runtimes in force."""
        return self.context.model

    def config(self) -> Mapping[str, str]:
        """Return what ``scontrol show config`` said last."""
        return self.facts.latest.config

    def settings(self) -> Settings:
        """Return the settings since the last reload."""
        return self.controller.settings

    def optional_columns(self) -> frozenset[str]:
        """Return the columns that the next observation needs: for the rules, and to tell what of jobs is ours."""
        return self.context.policy.rules.optional_columns | self.memory.optional_columns()

    def overload_s(self) -> float | None:
        """Return how long a node has to be overloaded; None where that does not count."""
        terms = self.context.policy.rules.migration
        return None if terms is None else terms.for_s

    def progressed(self, phase: str) -> None:
        """Tell the service that a phase of the cycle began."""
        self.service.progressed()
